//! The conditions of `.if` and `.elif` (HAProxy's configuration manual, §2.4).
//!
//! or  = and  *( "||" and )
//! and = term *( "&&" term )
//! term = "!" term / "(" or ")" / number / predicate "(" arguments ")"

/// Evaluates a condition. `defined` returns whether a variable exists.
///
/// # Errors
/// The condition is invalid.
pub(super) fn holds(text: &str, defined: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let mut parser = ConditionParser { left: text.trim(), defined, depth: 0 };
    if parser.left.is_empty() {
        return Ok(false);
    }
    let value = parser.any()?;
    match parser.left {
        "" => Ok(value),
        left => Err(format!("unexpected '{left}' in the condition")),
    }
}

struct ConditionParser<'a> {
    left: &'a str,
    defined: &'a dyn Fn(&str) -> bool,
    depth: usize,
}

impl<'a> ConditionParser<'a> {
    fn any(&mut self) -> Result<bool, String> {
        let mut value = self.all()?;
        while self.take("||") {
            value |= self.all()?;
        }
        Ok(value)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut value = self.term()?;
        while self.take("&&") {
            value &= self.term()?;
        }
        Ok(value)
    }

    fn term(&mut self) -> Result<bool, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the condition is nested too deeply: the limit is {DEPTH_MAX}"));
        }
        let value = if self.take("!") {
            !self.term()?
        } else if self.take("(") {
            let value = self.any()?;
            self.close()?;
            value
        } else {
            self.predicate()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn predicate(&mut self) -> Result<bool, String> {
        let len = self.left.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, rest) = self.left.split_at(len.unwrap_or(self.left.len()));
        self.left = rest.trim_start();
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(name.bytes().any(|byte| byte != b'0'));
        }
        if !PREDICATES.contains(&name) {
            let known = PREDICATES.join(", ");
            return Err(format!("unknown predicate '{name}', expected one of {known}"));
        }
        let arguments = self.arguments(name)?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match (name, &arguments[..]) {
            ("defined", [name]) => Ok((self.defined)(name)),
            ("feature", [name]) => Ok(FEATURES.contains(name)),
            ("streq", [one, other]) => Ok(one == other),
            ("strneq", [one, other]) => Ok(one != other),
            ("version_atleast", [version]) => Ok(VERSION >= version_of(version)?),
            ("version_before", [version]) => Ok(VERSION < version_of(version)?),
            ("streq" | "strneq", _) => Err(format!("{name}() requires two arguments")),
            _ => Err(format!("{name}() requires one argument")),
        }
    }

    /// The arguments in parentheses, split at commas; quotes and backslashes escape.
    fn arguments(&mut self, name: &str) -> Result<Vec<String>, String> {
        if !self.take("(") {
            return Err(format!("missing '(' after '{name}'"));
        }
        let mut arguments = vec![String::new()];
        let mut quote = None;
        let mut chars = self.left.char_indices();
        while let Some((at, c)) = chars.next() {
            let last = arguments.last_mut().expect("there is always one");
            match (c, quote) {
                (c, Some(open)) if c == open => quote = None,
                ('\'' | '"', None) => quote = Some(c),
                ('\\', None | Some('"')) => last.extend(chars.next().map(|(_, c)| c)),
                (',', None) => arguments.push(String::new()),
                (')', None) => {
                    self.left = self.left[at + 1..].trim_start();
                    return Ok(arguments);
                }
                (c, _) => last.push(c),
            }
        }
        Err(format!("missing ')' after '{name}('"))
    }

    fn close(&mut self) -> Result<(), String> {
        match self.take(")") {
            true => Ok(()),
            false => Err("missing ')'".to_owned()),
        }
    }

    fn take(&mut self, sign: &str) -> bool {
        let rest: Option<&'a str> = self.left.strip_prefix(sign);
        self.left = rest.map_or(self.left, str::trim_start);
        rest.is_some()
    }
}

/// Parses `2.6-dev3` or `2.6.1`. Missing numbers are 0; a suffix after a dash means an older
/// version.
fn version_of(text: &str) -> Result<(u32, u32, u32, i32), String> {
    let wrong = || format!("'{text}' is not a version, expected for example 2.6 or 2.4-dev19");
    let (numbers, development) = match text.split_once('-') {
        None => (text, 0),
        Some((numbers, rest)) => match rest.strip_prefix("dev") {
            Some(dev) => (numbers, dev.parse::<i32>().map_err(|_| wrong())?.saturating_sub(9999)),
            None => (numbers, 0),
        },
    };
    let mut parts = [0; 3];
    for (n, number) in numbers.split('.').enumerate() {
        *parts.get_mut(n).ok_or_else(wrong)? = number.parse().map_err(|_| wrong())?;
    }
    Ok((parts[0], parts[1], parts[2], development))
}

/// The emulated version of HAProxy.
const VERSION: (u32, u32, u32, i32) = (2, 6, 0, 0);

/// Features for which `feature()` is true: supported here for configurations that test for them.
const FEATURES: &[&str] = &[
    "ACCEPT4",
    "BACKTRACE",
    "CRYPT_H",
    "EPOLL",
    "GETADDRINFO",
    "LIBCRYPT",
    "LINUX_SPLICE",
    "OPENSSL",
    "POLL",
    "PROMEX",
    "RT",
    "SYSTEMD",
    "THREAD",
];

const PREDICATES: &[&str] =
    &["defined", "feature", "streq", "strneq", "version_atleast", "version_before"];

/// Far deeper than any real condition.
const DEPTH_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_computed_as_haproxy_does() {
        let defined = |name: &str| name == "HOME";
        for (text, value) in [
            ("", false),
            ("0", false),
            ("1", true),
            ("00", false),
            ("!1", false),
            ("! 0", true),
            ("defined(HOME)", true),
            ("defined(NONE)", false),
            ("feature(OPENSSL)", true),
            ("feature(LUA)", false),
            ("streq(a b,a b)", true),
            ("streq(\"a,b\",'a,b')", true),
            ("strneq(a\\,b,a)", true),
            ("streq(,)", true),
            ("version_atleast(2.4-dev19)", true),
            ("version_atleast(2.6)", true),
            ("version_atleast(2.7)", false),
            ("version_before(2.6.1)", true),
            ("version_before(2.6-dev9)", false),
            ("1 && 0 || 1", true),
            ("1 && (0 || 0)", false),
            ("0 || 1 && !0", true),
            ("feature(OPENSSL) && (streq(a,yes) || streq(yes,yes))", true),
        ] {
            assert_eq!(holds(text, &defined), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for text in [
            "foo",
            "foo(x)",
            "defined",
            "defined(",
            "(1",
            "1)",
            "1 1",
            "&&",
            "1 &&",
            "streq(a)",
            "version_atleast(x)",
            "version_atleast(1.2.3.4)",
        ] {
            assert!(holds(text, &|_| false).is_err(), "{text}");
        }
        assert!(holds(&"(".repeat(100_000), &|_| false).is_err());
        assert!(holds(&"!".repeat(100_000), &|_| false).is_err());
    }
}
