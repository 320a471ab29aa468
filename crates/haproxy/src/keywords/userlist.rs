//! The section `userlist`.

use crate::diagnostics::{Diagnostic, Severity};
use crate::line::Line;
use crate::model::{Secret, User, Userlist};
use crate::rules::{Fault, Word};
use crate::spot::Reference;
use crate::table::{Keyword, row};

/// A list while it is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserlistDraft {
    pub(crate) name: String,
    users: Vec<User>,
    groups: Vec<String>,
    /// Groups that users name, and who.
    named_groups: Vec<(String, Reference)>,
    /// Users that groups name, and which.
    named_users: Vec<(String, Reference)>,
}

/// Keywords of the section.
pub(crate) const ROWS: &[Keyword<UserlistDraft>] = &[
    row(
        "user",
        0,
        "<name> password | insecure-password <text> [groups <names>]",
        "somebody, and what they know",
        user,
    ),
    row("group", 0, "<name> [users <names>]", "users that belong together", group),
];

impl UserlistDraft {
    /// A list that begins.
    pub(crate) fn begin(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    /// The list, with every user in its groups. Names that are not there are told.
    pub(crate) fn finish(self, found: &mut Vec<Diagnostic>) -> Userlist {
        let mut users = self.users;
        let mut join = |user: &str, group: &str, missing: &str, reference: &Reference| {
            let member = users.iter_mut().find(|other| other.name == user);
            match member.filter(|_| self.groups.iter().any(|other| other == group)) {
                Some(user) => user.groups.push(group.to_owned()),
                None => {
                    let Reference { name, spot } = reference;
                    let message = format!("there is no {missing} '{}' in this list", name.text);
                    let fault = Fault::new(name.column, message);
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

fn user(list: &mut UserlistDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let name = line.word("the name of a user")?;
    if list.users.iter().any(|user| user.name == name.text) {
        let message = format!("there is a user '{}' in this list already", name.text);
        return Err(Fault::new(name.column, message));
    }
    let mut user = User { name: name.text, ..User::default() };
    while let Some(word) = line.words.next() {
        match &*word.text {
            "password" => user.secret = crypt(&line.word("a hash")?)?,
            "insecure-password" => user.secret = Secret::Clear(line.word("a password")?.text),
            "groups" => {
                let groups = references(line)?.into_iter();
                list.named_groups.extend(groups.map(|group| (user.name.clone(), group)));
            }
            other => {
                let message =
                    format!("'{other}': here may stand password, insecure-password, groups");
                return Err(Fault::new(word.column, message));
            }
        }
    }
    list.users.push(user);
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

fn group(list: &mut UserlistDraft, line: &mut Line<'_>) -> Result<(), Fault> {
    let group = line.word("the name of a group")?;
    if list.groups.contains(&group.text) {
        let message = format!("there is a group '{}' in this list already: it counts", group.text);
        line.warn(group.column, message);
        line.words.rest();
        return Ok(());
    }
    if let Some(word) = line.words.next() {
        if word.text != "users" {
            let message = format!("'{}': users is wanted here", word.text);
            return Err(Fault::new(word.column, message));
        }
        let users = references(line)?.into_iter();
        list.named_users.extend(users.map(|user| (group.text.clone(), user)));
    }
    list.groups.push(group.text);
    Ok(())
}

/// Names with commas between them.
fn references(line: &mut Line<'_>) -> Result<Vec<Reference>, Fault> {
    let word = line.word("names with commas")?;
    let names = word.text.split(',').filter(|name| !name.is_empty());
    let reference = |name: &str| {
        let name = Word { text: name.to_owned(), column: word.column };
        Reference { name, spot: line.spot.clone() }
    };
    Ok(names.map(reference).collect())
}

/// How hashes begin.
const KINDS: [&str; 5] = ["$2a$", "$2b$", "$2y$", "$5$", "$6$"];
