//! The one password of a server, which all ports ask for.

use constant_time_eq::constant_time_eq;

/// Whether what a client gave is the password, in time that does not depend on where it is wrong.
/// A server without a password takes anything.
pub(crate) fn is_right(password: Option<&str>, given: &[u8]) -> bool {
    password.is_none_or(|password| constant_time_eq(password.as_bytes(), given))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_password_is_right() {
        for wrong in ["", "s", "secre", "secret ", "Secret", "secret\0"] {
            assert!(!is_right(Some("secret"), wrong.as_bytes()), "{wrong:?}");
        }
        assert!(is_right(Some("secret"), b"secret"));
        assert!(is_right(None, b"anything"));
    }
}
