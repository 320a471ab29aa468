//! The section `userlist`.

use crate::diagnostics::{Diagnostic, Severity};
use crate::keyword_table::{Keyword, row};
use crate::line::KeywordLine;
use crate::model::{User, UserSecret, Userlist};
use crate::position::NameReference;
use crate::rules::{Word, WordError};

/// A userlist being parsed.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserlistDraft {
    pub(crate) name: String,
    users: Vec<User>,
    groups: Vec<String>,
    /// Groups named by users, and the user.
    named_groups: Vec<(String, NameReference)>,
    /// Users named by groups, and the group.
    named_users: Vec<(String, NameReference)>,
}

/// Keywords of the section.
pub(crate) const ROWS: &[Keyword<UserlistDraft>] = &[
    row(
        "user",
        0,
        "<name> password | insecure-password <text> [groups <names>]",
        "user with a password",
        user,
    ),
    row("group", 0, "<name> [users <names>]", "group of users", group),
];

impl UserlistDraft {
    /// A new list.
    pub(crate) fn begin(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// The finished list, with each user's groups. Unknown names are reported.
    pub(crate) fn finish(self, found: &mut Vec<Diagnostic>) -> Userlist {
        let mut users = self.users;
        let mut join = |user: &str, group: &str, missing: &str, reference: &NameReference| {
            let member = users.iter_mut().find(|other| other.name == user);
            match member.filter(|_| self.groups.iter().any(|other| other == group)) {
                Some(user) => user.groups.push(group.to_owned()),
                None => {
                    let NameReference { name, spot } = reference;
                    let message = format!("unknown {missing} '{}' in this userlist", name.text);
                    let fault = WordError::new(name.column, message);
                    found.push(Diagnostic::at(Severity::Alert, &spot.place, &spot.text, fault));
                }
            }
        };
        for (user, group) in &self.named_groups {
            join(user, &group.name.text, "group", group);
        }
        for (group, user) in &self.named_users {
            join(&user.name.text, group, "user", user);
        }
        Userlist { name: self.name, users }
    }
}

fn user(list: &mut UserlistDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let name = line.word("the name of a user")?;
    if list.users.iter().any(|user| user.name == name.text) {
        let message = format!("user '{}' is already defined in this userlist", name.text);
        return Err(WordError::new(name.column, message));
    }
    let mut user = User { name: name.text, ..User::default() };
    while let Some(word) = line.words.next() {
        match &*word.text {
            "password" => user.secret = crypt(&line.word("a hash")?)?,
            "insecure-password" => user.secret = UserSecret::Clear(line.word("a password")?.text),
            "groups" => {
                let groups = references(line)?.into_iter();
                list.named_groups.extend(groups.map(|group| (user.name.clone(), group)));
            }
            other => {
                let message =
                    format!("'{other}': expected 'password', 'insecure-password' or 'groups'");
                return Err(WordError::new(word.column, message));
            }
        }
    }
    list.users.push(user);
    Ok(())
}

/// A crypt(5) hash of a supported kind.
fn crypt(word: &Word) -> Result<UserSecret, WordError> {
    if KINDS.iter().any(|kind| word.text.starts_with(kind)) {
        return Ok(UserSecret::Crypt(word.text.clone()));
    }
    let message = "unsupported or insecure hash: expected $5$ or $6$ (mkpasswd), or $2y$ \
                   (htpasswd -B)";
    Err(WordError::unknown(word.column, message))
}

fn group(list: &mut UserlistDraft, line: &mut KeywordLine<'_>) -> Result<(), WordError> {
    let group = line.word("the name of a group")?;
    if list.groups.contains(&group.text) {
        let message = format!("group '{}' is already defined: ignored", group.text);
        line.warn(group.column, message);
        line.words.rest();
        return Ok(());
    }
    if let Some(word) = line.words.next() {
        if word.text != "users" {
            let message = format!("'{}': expected 'users'", word.text);
            return Err(WordError::new(word.column, message));
        }
        let users = references(line)?.into_iter();
        list.named_users.extend(users.map(|user| (group.text.clone(), user)));
    }
    list.groups.push(group.text);
    Ok(())
}

/// Names separated by commas.
fn references(line: &mut KeywordLine<'_>) -> Result<Vec<NameReference>, WordError> {
    let word = line.word("names separated by commas")?;
    let names = word.text.split(',').filter(|name| !name.is_empty());
    let reference = |name: &str| {
        let name = Word { text: name.to_owned(), column: word.column };
        NameReference { name, spot: line.spot.clone() }
    };
    Ok(names.map(reference).collect())
}

/// Prefixes of hashes.
const KINDS: [&str; 5] = ["$2a$", "$2b$", "$2y$", "$5$", "$6$"];
