//! The section `userlist`.

use fulmar_rules::{Fault, Word};

use crate::line::Line;
use crate::model::{Secret, User, Userlist};
use crate::table::{Keyword, row};

/// Keywords of the section.
pub(crate) const ROWS: &[Keyword<Userlist>] = &[
    row(
        "user",
        0,
        "<name> password | insecure-password <text> [groups <names>]",
        "somebody, and what they know",
        user,
    ),
    row("group", 0, "<name> [users <names>]", "users that belong together", group),
];

fn user(list: &mut Userlist, line: &mut Line<'_>) -> Result<(), Fault> {
    let name = line.word("the name of a user")?;
    if list.users.iter().any(|user| user.name == name.text && user.secret != Secret::default()) {
        let message = format!("there is a user '{}' in this list already", name.text);
        return Err(Fault::new(name.column, message));
    }
    let mut secret = Secret::default();
    let mut groups = Vec::new();
    while let Some(word) = line.words.next() {
        match &*word.text {
            "password" => secret = crypt(&line.word("a hash")?)?,
            "insecure-password" => secret = Secret::Clear(line.word("a password")?.text),
            "groups" => groups = names(&line.word("names with commas")?),
            other => {
                let message =
                    format!("'{other}': here may stand password, insecure-password, groups");
                return Err(Fault::new(word.column, message));
            }
        }
    }
    match list.users.iter_mut().find(|user| user.name == name.text) {
        Some(user) => {
            user.secret = secret;
            user.groups.extend(groups);
        }
        None => list.users.push(User { name: name.text, secret, groups }),
    }
    Ok(())
}

/// A hash of crypt(5) whose kind is known.
fn crypt(word: &Word) -> Result<Secret, Fault> {
    if KINDS.iter().any(|kind| word.text.starts_with(kind)) {
        return Ok(Secret::Crypt(word.text.clone()));
    }
    let message = "this hash is of no kind that is safe to use; there are $5$, $6$ (mkpasswd) and \
                   $2y$ (htpasswd -B)";
    Err(Fault::unknown(word.column, message))
}

/// Users may be named before they are declared, and after.
fn group(list: &mut Userlist, line: &mut Line<'_>) -> Result<(), Fault> {
    let group = line.word("the name of a group")?;
    if line.words.is_empty() {
        return Ok(());
    }
    let word = line.word("users")?;
    if word.text != "users" {
        let message = format!("'{}': users is wanted here", word.text);
        return Err(Fault::new(word.column, message));
    }
    for name in names(&line.word("names with commas")?) {
        match list.users.iter_mut().find(|user| user.name == name) {
            Some(user) => user.groups.push(group.text.clone()),
            None => list.users.push(User {
                name,
                secret: Secret::default(),
                groups: vec![group.text.clone()],
            }),
        }
    }
    Ok(())
}

fn names(word: &Word) -> Vec<String> {
    word.text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// How hashes begin.
const KINDS: [&str; 5] = ["$2a$", "$2b$", "$2y$", "$5$", "$6$"];
