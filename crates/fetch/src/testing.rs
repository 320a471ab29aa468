//! Properties of lists and journals for any bytes: the bodies of the fuzz targets.

use std::fs;
use std::io::ErrorKind;

use crate::journal::{DownloadKey, Journal};
use crate::list;
use crate::name::OutputName;

/// A list, line by line: each line is an entry or an error, and an entry that is written as a line
/// is read again.
///
/// # Panics
/// The property does not hold.
pub fn list(data: &[u8]) {
    for line in data.split(|byte| *byte == b'\n') {
        let Ok(Some(entry)) = list::parse(line) else { continue };
        if entry.url.starts_with('#') {
            continue; // after a space; at the beginning of a line it would be a comment
        }
        assert!(!entry.url.contains('\t') && entry.name.as_deref() != Some(b""));
        let name = entry.name.as_deref().unwrap_or(b"-");
        let again = list::parse(&[entry.url.as_bytes(), b"\t", name].concat());
        let Ok(Some(again)) = again else { panic!("{entry:?} is read once, and then {again:?}") };
        assert_eq!((again.url, again.name), (entry.url, entry.name));
    }
}

/// A journal with these bytes is refused, or records another download, which the next run finds.
///
/// # Panics
/// The property does not hold, or there is no temporary directory.
pub fn journal(data: &[u8]) {
    let thread = std::thread::current().id();
    let name = format!("fulmar-journal-{}-{thread:?}", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, data).expect("a temporary file");
    let key = DownloadKey::new("http://h/", &OutputName::given("name").expect("a sound name"));
    match Journal::open(&path, BOOT) {
        Ok((mut journal, _)) => {
            let ticket = journal.begin(key);
            journal.flush().expect("room on the disk");
            assert!(journal.is_written(ticket));
            journal.done(key, 5);
            journal.flush().expect("room on the disk");
            drop(journal);
            let (_, history) = Journal::open(&path, BOOT).expect("it was opened before");
            assert!(history.has_begun(key) && history.is_done(key, 5), "it was written");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}"),
    }
    fs::remove_file(&path).expect("it is there");
}

/// This start of the system.
const BOOT: Option<&str> = Some("0f-1");

#[cfg(test)]
#[path = "../../../fuzz/src/mutate.rs"]
#[allow(unreachable_pub, reason = "a crate of its own elsewhere")]
mod mutate;

#[cfg(test)]
mod tests {
    use super::*;

    use super::mutate::{Random, mutate};

    fn smoke(cases: &[&[u8]], rounds: usize, target: fn(&[u8])) {
        let corpus: Vec<_> = cases.iter().map(|case| case.to_vec()).collect();
        corpus.iter().for_each(|case| target(case));
        let mut random = Random(SEED);
        for round in 0..rounds {
            let mut data = corpus[random.below(corpus.len())].clone();
            (0..=random.below(8)).for_each(|_| mutate(&mut data, &corpus, &mut random));
            let result = std::panic::catch_unwind(|| target(&data));
            assert!(result.is_ok(), "round {round}: {}", data.escape_ascii());
        }
    }

    #[test]
    fn mutated_lists_are_entries_or_errors() {
        const CASES: &[&[u8]] = &[
            b"http://h/a b md5:d41d8cd98f00b204e9800998ecf8427e\nhttp://h/ - \n# no\n",
            b"http://h/\ta b\tsha256:00\r\n\n\thttp://h/\t-\t\t\n",
        ];
        smoke(CASES, 20_000, list);
    }

    #[test]
    fn mutated_journals_are_continued_or_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("journal");
        let (mut journal_file, _) = Journal::open(&path, BOOT).expect("a new one");
        for url in ["http://h/a", "http://h/b"] {
            let key = DownloadKey::new(url, &OutputName::given("n").expect("a name"));
            journal_file.begin(key);
            journal_file.done(key, 1);
        }
        journal_file.flush().expect("room");
        drop(journal_file);
        let sound = fs::read(&path).expect("it is there");
        smoke(&[&sound, &sound[..sound.len() - 3], b"something else\n"], 500, journal);
    }

    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
}
