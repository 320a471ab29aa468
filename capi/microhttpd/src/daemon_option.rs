//! The options of `MHD_start_daemon` (`enum MHD_OPTION`): their arguments in C, and where arrays
//! hold them.
//!
//! A wrong size of a variable argument shifts all later ones, so the border reads arguments by this
//! table only. An unknown option ends the list: the daemon does not start.

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonOption {
    /// The number in `enum MHD_OPTION`.
    pub number: u32,
    /// The name without `MHD_OPTION_`.
    pub name: &'static str,
    /// The variable arguments.
    pub arguments: OptionArguments,
    /// True for options that belong to `MHD_USE_TLS`. Without that flag they are logged and
    /// ignored.
    pub is_tls: bool,
}

/// The types of an option's variable arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionArguments {
    /// Nothing: the end of a list.
    None,
    /// `unsigned int`.
    Unsigned,
    /// `int`, or an enumeration.
    Int,
    /// `size_t`.
    Size,
    /// A pointer.
    Pointer,
    /// A function and its closure.
    Function,
    /// `size_t` and a pointer to that many bytes.
    Buffer,
    /// A pointer to `struct MHD_OptionItem`, up to `MHD_OPTION_END`.
    Array,
}

/// The member of `struct MHD_OptionItem` with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemMember {
    /// `value`.
    Value,
    /// `ptr_value`.
    PtrValue,
}

impl DaemonOption {
    /// The option with this number.
    #[must_use]
    pub fn of(number: u32) -> Option<&'static Self> {
        let at = OPTIONS.binary_search_by_key(&number, |option| option.number).ok()?;
        Some(&OPTIONS[at])
    }

    /// All options.
    #[must_use]
    pub fn all() -> &'static [Self] {
        OPTIONS
    }
}

impl OptionArguments {
    /// Where the arguments are in an array: numbers, and the first of two, in `value`; a single
    /// pointer, and the second of two, in `ptr_value`.
    #[must_use]
    pub fn members(self) -> &'static [ItemMember] {
        match self {
            Self::None => &[],
            Self::Unsigned | Self::Int | Self::Size => &[ItemMember::Value],
            Self::Pointer | Self::Array => &[ItemMember::PtrValue],
            Self::Function | Self::Buffer => &[ItemMember::Value, ItemMember::PtrValue],
        }
    }
}

const fn option(number: u32, name: &'static str, arguments: OptionArguments) -> DaemonOption {
    DaemonOption { number, name, arguments, is_tls: false }
}

const fn tls(number: u32, name: &'static str, arguments: OptionArguments) -> DaemonOption {
    DaemonOption { number, name, arguments, is_tls: true }
}

/// In ascending order.
const OPTIONS: &[DaemonOption] = &[
    option(0, "END", OptionArguments::None),
    option(1, "CONNECTION_MEMORY_LIMIT", OptionArguments::Size),
    option(2, "CONNECTION_LIMIT", OptionArguments::Unsigned),
    option(3, "CONNECTION_TIMEOUT", OptionArguments::Unsigned),
    option(4, "NOTIFY_COMPLETED", OptionArguments::Function),
    option(5, "PER_IP_CONNECTION_LIMIT", OptionArguments::Unsigned),
    option(6, "SOCK_ADDR", OptionArguments::Pointer),
    option(7, "URI_LOG_CALLBACK", OptionArguments::Function),
    tls(8, "HTTPS_MEM_KEY", OptionArguments::Pointer),
    tls(9, "HTTPS_MEM_CERT", OptionArguments::Pointer),
    tls(10, "HTTPS_CRED_TYPE", OptionArguments::Int),
    tls(11, "HTTPS_PRIORITIES", OptionArguments::Pointer),
    option(12, "LISTEN_SOCKET", OptionArguments::Int),
    option(13, "EXTERNAL_LOGGER", OptionArguments::Function),
    option(14, "THREAD_POOL_SIZE", OptionArguments::Unsigned),
    option(15, "ARRAY", OptionArguments::Array),
    option(16, "UNESCAPE_CALLBACK", OptionArguments::Function),
    option(17, "DIGEST_AUTH_RANDOM", OptionArguments::Buffer),
    option(18, "NONCE_NC_SIZE", OptionArguments::Unsigned),
    option(19, "THREAD_STACK_SIZE", OptionArguments::Size),
    tls(20, "HTTPS_MEM_TRUST", OptionArguments::Pointer),
    option(21, "CONNECTION_MEMORY_INCREMENT", OptionArguments::Size),
    tls(22, "HTTPS_CERT_CALLBACK", OptionArguments::Pointer),
    option(23, "TCP_FASTOPEN_QUEUE_SIZE", OptionArguments::Unsigned),
    tls(24, "HTTPS_MEM_DHPARAMS", OptionArguments::Pointer),
    option(25, "LISTENING_ADDRESS_REUSE", OptionArguments::Unsigned),
    tls(26, "HTTPS_KEY_PASSWORD", OptionArguments::Pointer),
    option(27, "NOTIFY_CONNECTION", OptionArguments::Function),
    option(28, "LISTEN_BACKLOG_SIZE", OptionArguments::Unsigned),
    option(29, "STRICT_FOR_CLIENT", OptionArguments::Int),
    tls(30, "GNUTLS_PSK_CRED_HANDLER", OptionArguments::Function),
    tls(31, "HTTPS_CERT_CALLBACK2", OptionArguments::Pointer),
    option(32, "SERVER_INSANITY", OptionArguments::Unsigned),
    option(33, "SIGPIPE_HANDLED_BY_APP", OptionArguments::Int),
    tls(34, "TLS_NO_ALPN", OptionArguments::Int),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn options_are_those_up_to_34_without_a_gap() {
        assert!(OPTIONS.iter().zip(0..).all(|(option, number)| option.number == number));
        assert_eq!(OPTIONS.len(), 35);
        assert_eq!(DaemonOption::of(29).map(|option| option.name), Some("STRICT_FOR_CLIENT"));
        assert_eq!(DaemonOption::of(35), None);
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = OPTIONS.iter().map(|option| option.name).collect();
        assert_eq!(names.len(), OPTIONS.len());
    }

    #[test]
    fn options_of_tls_are_named_so() {
        for option in DaemonOption::all() {
            let named = ["HTTPS_", "GNUTLS_", "TLS_"].iter().any(|p| option.name.starts_with(p));
            assert_eq!(option.is_tls, named, "{}", option.name);
        }
    }

    #[test]
    fn two_arguments_use_both_members_of_an_item() {
        let members = |number| DaemonOption::of(number).expect("an option").arguments.members();
        assert_eq!(members(17), [ItemMember::Value, ItemMember::PtrValue]);
        assert_eq!(members(4), [ItemMember::Value, ItemMember::PtrValue]);
        assert_eq!(members(1), [ItemMember::Value]);
        assert_eq!(members(6), [ItemMember::PtrValue]);
        assert_eq!(members(0), []);
    }
}
