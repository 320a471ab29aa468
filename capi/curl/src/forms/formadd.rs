//! The arguments of `curl_formadd`: which options go together, and the sections that they make.

use crate::mime::content_type_of;
use crate::values::CPointer;

/// An option and its argument, of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FormWord {
    /// `CURLFORM_*`.
    pub option: i32,
    /// An address or a number.
    pub value: CPointer,
}

/// The result of `curl_formadd` (`CURLFORMcode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum FormAddCode {
    /// The section was added.
    Ok = 0,
    /// No memory.
    Memory = 1,
    /// An option was given twice.
    OptionTwice = 2,
    /// An argument is `NULL`.
    Null = 3,
    /// There is no such option.
    UnknownOption = 4,
    /// The options make no section.
    Incomplete = 5,
    /// An array within an array.
    IllegalArray = 6,
}

/// `CURL_HTTPPOST_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostFlags(pub i64);

impl PostFlags {
    /// The contents are the path of a file.
    pub const FILENAME: Self = Self(1);
    /// The same, and the part has no file name.
    pub const READFILE: Self = Self(1 << 1);
    /// The name is the application's.
    pub const PTRNAME: Self = Self(1 << 2);
    /// The contents are the application's.
    pub const PTRCONTENTS: Self = Self(1 << 3);
    /// The contents are in the buffer.
    pub const BUFFER: Self = Self(1 << 4);
    /// The buffer is the application's.
    pub const PTRBUFFER: Self = Self(1 << 5);
    /// The read callback supplies the contents.
    pub const CALLBACK: Self = Self(1 << 6);
    /// The 64-bit length counts.
    pub const LARGE: Self = Self(1 << 7);

    /// True if one of these is set.
    pub fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    fn add(&mut self, flags: Self) {
        self.0 |= flags.0;
    }
}

/// A section, or a further file of one. Addresses are those of the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormaddSection {
    /// What the section is.
    pub flags: PostFlags,
    /// `NULL` for further files.
    pub name: CPointer,
    /// 0: the name ends with a NUL.
    pub name_len: usize,
    /// The contents, a path, or the argument of the read callback.
    pub value: CPointer,
    /// 0: the contents end with a NUL.
    pub value_len: i64,
    /// `CURLFORM_BUFFERPTR`.
    pub buffer: CPointer,
    /// Its length.
    pub buffer_len: usize,
    /// `CURLFORM_CONTENTTYPE`, or the type of the file's name.
    pub content_type: Option<Vec<u8>>,
    /// `CURLFORM_CONTENTHEADER`.
    pub headers: CPointer,
    /// `CURLFORM_FILENAME` or `CURLFORM_BUFFER`.
    pub shown: Option<Vec<u8>>,
    /// `CURLFORM_STREAM`.
    pub user: CPointer,
}

/// Reads a string, or so many bytes, at an address.
type ReadMemory<'a> = &'a dyn Fn(CPointer, Option<usize>) -> Vec<u8>;

/// The sections of the arguments of a call. Those before a failing one are added nevertheless.
/// `array`: the element of an array of arguments at an index.
pub fn sections_of(
    words: impl IntoIterator<Item = FormWord>,
    array: impl Fn(CPointer, usize) -> FormWord,
    memory: ReadMemory<'_>,
) -> (Vec<FormaddSection>, FormAddCode) {
    match collect(words, array, memory) {
        Ok(sections) => complete(sections, memory),
        Err(code) => (Vec::new(), code),
    }
}

fn collect(
    words: impl IntoIterator<Item = FormWord>,
    array: impl Fn(CPointer, usize) -> FormWord,
    memory: ReadMemory<'_>,
) -> Result<Vec<FormaddSection>, FormAddCode> {
    let mut sections = vec![FormaddSection::default()];
    for word in words {
        match word.option {
            option::END => break,
            option::ARRAY if word.value.is_null() => return Err(FormAddCode::Null),
            option::ARRAY => {
                for at in 0.. {
                    let inner = array(word.value, at);
                    match inner.option {
                        option::END => break,
                        option::ARRAY => return Err(FormAddCode::IllegalArray),
                        _ => apply(&mut sections, inner, memory)?,
                    }
                }
            }
            _ => apply(&mut sections, word, memory)?,
        }
    }
    Ok(sections)
}

/// Stores an argument in the last section; a second file begins another one.
fn apply(
    sections: &mut Vec<FormaddSection>,
    word: FormWord,
    memory: ReadMemory<'_>,
) -> Result<(), FormAddCode> {
    let section = sections.last_mut().expect("there is a first one");
    let flags = &mut section.flags;
    let number = word.value.0.addr();
    match word.option {
        option::COPYNAME | option::PTRNAME => {
            if word.option == option::PTRNAME {
                flags.add(PostFlags::PTRNAME);
            }
            set_once(&mut section.name, word.value)
        }
        option::NAMELENGTH => set_number_once(&mut section.name_len, number),
        option::COPYCONTENTS | option::PTRCONTENTS => {
            if word.option == option::PTRCONTENTS {
                flags.add(PostFlags::PTRCONTENTS);
            }
            set_once(&mut section.value, word.value)
        }
        option::CONTENTSLENGTH | option::CONTENTLEN => {
            if word.option == option::CONTENTLEN {
                flags.add(PostFlags::LARGE);
            }
            section.value_len = number as i64;
            Ok(())
        }
        option::FILECONTENT
            if flags.has(PostFlags::PTRCONTENTS) || flags.has(PostFlags::READFILE) =>
        {
            Err(FormAddCode::OptionTwice)
        }
        option::FILECONTENT => {
            section.value = not_null(word.value)?;
            flags.add(PostFlags::READFILE);
            Ok(())
        }
        option::FILE => add_file(sections, word.value),
        option::BUFFERPTR => {
            flags.add(PostFlags(PostFlags::PTRBUFFER.0 | PostFlags::BUFFER.0));
            set_once(&mut section.buffer, word.value)?;
            section.value = word.value; // the section is not empty
            Ok(())
        }
        option::BUFFERLENGTH => set_number_once(&mut section.buffer_len, number),
        option::STREAM => {
            flags.add(PostFlags::CALLBACK);
            set_once(&mut section.user, word.value)?;
            section.value = word.value; // the section is not empty
            Ok(())
        }
        option::CONTENTTYPE => add_type(sections, word.value, memory),
        option::CONTENTHEADER if !section.headers.is_null() => Err(FormAddCode::OptionTwice),
        option::CONTENTHEADER => {
            section.headers = word.value;
            Ok(())
        }
        option::FILENAME | option::BUFFER if section.shown.is_some() => {
            Err(FormAddCode::OptionTwice)
        }
        option::FILENAME | option::BUFFER => {
            section.shown = Some(memory(not_null(word.value)?, None));
            Ok(())
        }
        _ => Err(FormAddCode::UnknownOption),
    }
}

fn add_file(sections: &mut Vec<FormaddSection>, path: CPointer) -> Result<(), FormAddCode> {
    let section = sections.last_mut().expect("there is a first one");
    if section.value.is_null() {
        section.value = not_null(path)?;
        section.flags.add(PostFlags::FILENAME);
        return Ok(());
    }
    if !section.flags.has(PostFlags::FILENAME) {
        return Err(FormAddCode::OptionTwice);
    }
    let value = not_null(path)?;
    sections.push(FormaddSection {
        value,
        flags: PostFlags::FILENAME,
        ..FormaddSection::default()
    });
    Ok(())
}

fn add_type(
    sections: &mut Vec<FormaddSection>,
    content_type: CPointer,
    memory: ReadMemory<'_>,
) -> Result<(), FormAddCode> {
    let section = sections.last_mut().expect("there is a first one");
    if section.content_type.is_some() && !section.flags.has(PostFlags::FILENAME) {
        return Err(FormAddCode::OptionTwice);
    }
    let text = Some(memory(not_null(content_type)?, None));
    if section.content_type.is_none() {
        section.content_type = text;
        return Ok(());
    }
    let flags = PostFlags::FILENAME;
    sections.push(FormaddSection { content_type: text, flags, ..FormaddSection::default() });
    Ok(())
}

fn not_null(pointer: CPointer) -> Result<CPointer, FormAddCode> {
    if pointer.is_null() { Err(FormAddCode::Null) } else { Ok(pointer) }
}

fn set_once(field: &mut CPointer, value: CPointer) -> Result<(), FormAddCode> {
    if !field.is_null() {
        return Err(FormAddCode::OptionTwice);
    }
    *field = not_null(value)?;
    Ok(())
}

fn set_number_once(field: &mut usize, value: usize) -> Result<(), FormAddCode> {
    if *field != 0 {
        return Err(FormAddCode::OptionTwice);
    }
    *field = value;
    Ok(())
}

/// Checks the sections in their order, and finds the types of files.
fn complete(
    mut sections: Vec<FormaddSection>,
    memory: ReadMemory<'_>,
) -> (Vec<FormaddSection>, FormAddCode) {
    let mut previous: Option<Vec<u8>> = None;
    for at in 0..sections.len() {
        let section = &mut sections[at];
        let is_named = section.name_len == 0
            || section.name.is_null()
            || !memory(section.name, Some(section.name_len)).contains(&0);
        let code = match (is_whole(section, at == 0), is_named) {
            (false, _) => FormAddCode::Incomplete,
            (true, false) => FormAddCode::Null,
            (true, true) => FormAddCode::Ok,
        };
        if code != FormAddCode::Ok {
            sections.truncate(at);
            return (sections, code);
        }
        let has_type =
            section.flags.has(PostFlags::FILENAME) || section.flags.has(PostFlags::BUFFER);
        if has_type && section.content_type.is_none() {
            let name = match section.flags.has(PostFlags::BUFFER) {
                true => section.shown.clone(),
                false if section.value.is_null() => None,
                false => Some(memory(section.value, None)),
            };
            let known = name.as_deref().and_then(content_type_of);
            let known = known.map(|name| name.as_bytes().to_vec()).or_else(|| previous.clone());
            section.content_type =
                Some(known.unwrap_or_else(|| b"application/octet-stream".to_vec()));
        }
        if section.content_type.is_some() {
            previous.clone_from(&section.content_type);
        }
    }
    (sections, FormAddCode::Ok)
}

fn is_whole(section: &FormaddSection, is_first: bool) -> bool {
    let flags = section.flags;
    let has_both = |one, other| flags.has(one) && flags.has(other);
    let is_empty = section.name.is_null() || section.value.is_null();
    !(is_first && is_empty
        || section.value_len != 0 && flags.has(PostFlags::FILENAME)
        || has_both(PostFlags::FILENAME, PostFlags::PTRCONTENTS)
        || section.buffer.is_null() && has_both(PostFlags::BUFFER, PostFlags::PTRBUFFER)
        || has_both(PostFlags::READFILE, PostFlags::PTRCONTENTS))
}

/// `CURLFORM_*`.
mod option {
    pub(super) const COPYNAME: i32 = 1;
    pub(super) const PTRNAME: i32 = 2;
    pub(super) const NAMELENGTH: i32 = 3;
    pub(super) const COPYCONTENTS: i32 = 4;
    pub(super) const PTRCONTENTS: i32 = 5;
    pub(super) const CONTENTSLENGTH: i32 = 6;
    pub(super) const FILECONTENT: i32 = 7;
    pub(super) const ARRAY: i32 = 8;
    pub(super) const FILE: i32 = 10;
    pub(super) const BUFFER: i32 = 11;
    pub(super) const BUFFERPTR: i32 = 12;
    pub(super) const BUFFERLENGTH: i32 = 13;
    pub(super) const CONTENTTYPE: i32 = 14;
    pub(super) const CONTENTHEADER: i32 = 15;
    pub(super) const FILENAME: i32 = 16;
    pub(super) const END: i32 = 17;
    pub(super) const STREAM: i32 = 19;
    pub(super) const CONTENTLEN: i32 = 20;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses are indexes of texts.
    fn address(number: usize) -> CPointer {
        CPointer(std::ptr::without_provenance_mut(number))
    }

    fn add(texts: &[&str], words: &[(i32, usize)]) -> (Vec<FormaddSection>, FormAddCode) {
        let words = words
            .iter()
            .map(|(option, value)| FormWord { option: *option, value: address(*value) });
        let memory = |address: CPointer, len: Option<usize>| {
            let text = texts[address.0.addr()].bytes();
            match len {
                Some(len) => text.take(len).collect(),
                None => text.take_while(|byte| *byte != 0).collect(),
            }
        };
        sections_of(words, |_, _| unreachable!("there is no array"), &memory)
    }

    /// The files of a section: the type of an unknown file is that of the file before it.
    #[test]
    fn formadd_finds_the_types_of_files() {
        let texts = ["", "name", "a.GIF", "b", "t/t", "c.txt"];
        let (sections, code) = add(&texts, &[(1, 1), (10, 2), (10, 3), (14, 4), (10, 5), (17, 0)]);
        assert_eq!(code, FormAddCode::Ok);
        let found: Vec<_> = sections
            .iter()
            .map(|section| (section.value, section.content_type.as_deref().expect("a type")))
            .collect();
        let gif = &b"image/gif"[..];
        assert_eq!(found, [(address(2), gif), (address(3), b"t/t"), (address(5), b"text/plain")]);
        let (sections, _) = add(&texts, &[(1, 1), (10, 2), (10, 3), (17, 0)]);
        assert_eq!(sections[1].content_type.as_deref(), Some(gif));
    }

    #[test]
    fn formadd_has_the_codes_of_libcurl() {
        let texts = ["", "name", "x\0y"];
        let rows: [(&[(i32, usize)], FormAddCode); 12] = [
            (&[(17, 0)], FormAddCode::Incomplete),
            (&[(1, 1), (4, 1), (17, 0)], FormAddCode::Ok),
            (&[(1, 1), (1, 1), (17, 0)], FormAddCode::OptionTwice),
            (&[(1, 0), (17, 0)], FormAddCode::Null),
            (&[(99, 0)], FormAddCode::UnknownOption),
            (&[(1, 1), (4, 1), (3, 3), (3, 3), (17, 0)], FormAddCode::OptionTwice),
            (&[(1, 2), (3, 3), (4, 1), (17, 0)], FormAddCode::Null),
            (&[(1, 1), (10, 1), (6, 3), (17, 0)], FormAddCode::Incomplete),
            (&[(1, 1), (7, 1), (5, 1), (17, 0)], FormAddCode::OptionTwice),
            (&[(1, 1), (4, 1), (14, 1), (14, 1), (17, 0)], FormAddCode::OptionTwice),
            (&[(1, 1), (10, 1), (10, 0), (17, 0)], FormAddCode::Null),
            (&[(1, 1), (8, 0), (17, 0)], FormAddCode::Null),
        ];
        for (words, code) in rows {
            assert_eq!(add(&texts, words).1, code, "{words:?}");
        }
    }
}
