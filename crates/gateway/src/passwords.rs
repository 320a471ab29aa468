//! Passwords of users, in plain text or as crypt(5) hashes.
//!
//! As in HAProxy, a hash is computed on the thread of the request, for every request. Use hashes
//! that take milliseconds.

use fulmar_haproxy::model::UserSecret;
use sha_crypt::{PasswordVerifier, ShaCrypt};
use sha2::{Digest, Sha256};

/// True if the password is the user's. A hash of an unknown kind never matches.
pub(crate) fn matches(secret: &UserSecret, password: &str) -> bool {
    match secret {
        // Digests are compared: the time of the comparison reveals nothing about the password.
        UserSecret::Clear(known) => Sha256::digest(known) == Sha256::digest(password),
        UserSecret::Crypt(hash) if hash.starts_with("$2") => {
            bcrypt::verify(password, hash).unwrap_or(false)
        }
        UserSecret::Crypt(hash) => {
            ShaCrypt::default().verify_password(password.as_bytes(), hash.as_str()).is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_known_in_every_form() {
        let hashes = [
            "$5$salt$kpa26zwgX83BPSR8d7w93OIXbFt/d3UOTZaAu5vsTM6",
            "$6$salt$egUxKNxDs8kPfh8iPMNcosMhb2eWah6d3R44JDm5Rj/j/XWR5E33\
             QPd0YmHXoDHOIDR6kL5D3JcQcz0O8FHE00",
            "$2y$04$5pZRu0JDzUFp1QH2oVMEru.CnB0FOv8RhqZ8YGPJy4yC8I8P1DGcW",
        ];
        for hash in hashes {
            let secret = UserSecret::Crypt(hash.to_owned());
            assert!(matches(&secret, "secret"), "{hash}");
            assert!(!matches(&secret, "Secret") && !matches(&secret, ""), "{hash}");
        }
        assert!(matches(&UserSecret::Clear("secret".into()), "secret"));
        assert!(!matches(&UserSecret::Clear("secret".into()), "secret "));
        assert!(!matches(&UserSecret::Crypt("nonsense".into()), "nonsense"));
    }
}
