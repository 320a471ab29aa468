//! Parses the reply of a name server (RFC 1034 §4.3.2, §5.3.3).

use std::net::IpAddr;

use c_ares::{DnsRecord, DnsSection, Error, TypedRr};
use fulmar_engine::ResolveError;

/// The addresses of one record type in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundAddresses {
    /// The name with these addresses; with a search list, the name that exists.
    pub(crate) name: Box<str>,
    pub(crate) addresses: Vec<IpAddr>,
    /// The minimum TTL of all records used, in seconds.
    pub(crate) ttl: u32,
}

/// The result of one query.
pub(crate) type Reply = Result<FoundAddresses, ResolveError>;

/// Reads the answer section: follows the aliases from the query name to the addresses. c-ares has
/// checked that the reply belongs to the query. Records of other names are ignored.
pub(crate) fn read(record: &DnsRecord) -> Reply {
    let (question, ..) = record.query_get(0).map_err(|_| ResolveError::ServerFailed)?;
    let answer = || record.rrs(DnsSection::Answer).map(|rr| rr.as_typed());
    let mut name = question;
    let mut ttl = u32::MAX;
    for _ in 0..ALIASES_MAX {
        let alias = answer().find_map(|rr| match rr {
            TypedRr::Cname(alias) if alias.name().eq_ignore_ascii_case(name) => Some(alias),
            _ => None,
        });
        let Some(alias) = alias else {
            let addresses: Vec<_> = answer()
                .filter_map(|rr| match rr {
                    TypedRr::A(a) => Some((a.name(), IpAddr::V4(a.addr()), a.ttl())),
                    TypedRr::Aaaa(a) => Some((a.name(), IpAddr::V6(a.addr()), a.ttl())),
                    _ => None,
                })
                .filter(|(owner, ..)| owner.eq_ignore_ascii_case(name))
                .inspect(|(.., seconds)| ttl = ttl.min(*seconds))
                .map(|(_, address, _)| address)
                .collect();
            if addresses.is_empty() {
                return Err(ResolveError::NoAddress);
            }
            return Ok(FoundAddresses {
                name: question.to_ascii_lowercase().into(),
                addresses,
                ttl,
            });
        };
        ttl = ttl.min(alias.ttl());
        name = alias.cname();
    }
    Err(ResolveError::ServerFailed) // an alias loop, or too many aliases
}

/// Maps an error of c-ares; `None` if the query was cancelled.
pub(crate) fn meaning(error: Error) -> Option<ResolveError> {
    Some(match error {
        Error::ECANCELLED | Error::EDESTRUCTION => return None,
        Error::ENOTFOUND => ResolveError::NotFound,
        Error::ENODATA => ResolveError::NoAddress,
        Error::EBADNAME => ResolveError::BadName,
        Error::ETIMEOUT => ResolveError::TimedOut,
        Error::ECONNREFUSED | Error::ENOSERVER => ResolveError::Unreachable,
        Error::ENOMEM => ResolveError::Exhausted,
        _ => ResolveError::ServerFailed,
    })
}

/// Maximum number of aliases for a name; resolvers follow 8 to 16.
const ALIASES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use c_ares::{DnsCls, DnsFlags, DnsOpcode, DnsRcode, DnsRecordType, DnsRrKey};

    use super::*;

    /// A reply to the query for the A records of `a.example`: `owner ttl address-or-alias`.
    fn reply(records: &[(&str, u32, &str)]) -> DnsRecord {
        let flags = DnsFlags::QR;
        let mut reply = DnsRecord::new(1, flags, DnsOpcode::Query, DnsRcode::NoError).unwrap();
        reply.query_add("A.example", DnsRecordType::A, DnsCls::IN).unwrap();
        for (owner, ttl, data) in records {
            let kind = match data.parse() {
                Ok(IpAddr::V4(_)) => DnsRecordType::A,
                Ok(IpAddr::V6(_)) => DnsRecordType::AAAA,
                Err(_) => DnsRecordType::CNAME,
            };
            let rr = reply.rr_add(DnsSection::Answer, owner, kind, DnsCls::IN, *ttl).unwrap();
            match data.parse() {
                Ok(IpAddr::V4(v4)) => rr.set_addr(DnsRrKey::A_ADDR, v4).map(drop),
                Ok(IpAddr::V6(v6)) => rr.set_addr6(DnsRrKey::AAAA_ADDR, v6).map(drop),
                Err(_) => rr.set_str(DnsRrKey::CNAME_CNAME, data).map(drop),
            }
            .unwrap();
        }
        reply
    }

    #[test]
    fn aliases_lead_to_addresses_in_any_order_of_records() {
        for (records, addresses, ttl) in [
            (&[("a.example", 60, "192.0.2.1"), ("A.EXAMPLE", 30, "192.0.2.2")][..], 2, 30),
            (&[("a.example", 9, "b.example"), ("b.example", 60, "192.0.2.1")], 1, 9),
            (
                &[
                    ("c.example", 60, "192.0.2.1"),
                    ("b.example", 60, "C.example"),
                    ("a.example", 50, "b.example"),
                ],
                1,
                50,
            ),
            (&[("a.example", 60, "2001:db8::1"), ("x.example", 1, "192.0.2.9")], 1, 60),
        ] {
            let found = read(&reply(records)).unwrap();
            assert_eq!((found.addresses.len(), found.ttl), (addresses, ttl), "{records:?}");
            assert_eq!(&*found.name, "a.example");
        }
    }

    #[test]
    fn addresses_of_other_names_are_ignored() {
        for records in [
            &[][..],
            &[("bank.example", 60, "192.0.2.66")],
            &[("a.example", 60, "b.example"), ("a.example", 60, "192.0.2.66")],
            &[("a.example", 60, "b.example"), ("bank.example", 60, "192.0.2.66")],
        ] {
            assert_eq!(read(&reply(records)), Err(ResolveError::NoAddress), "{records:?}");
        }
    }

    #[test]
    fn alias_loops_and_long_chains_are_failures() {
        let around = [("a.example", 60, "b.example"), ("b.example", 60, "a.example")];
        assert_eq!(read(&reply(&around)), Err(ResolveError::ServerFailed));
        let itself = [("a.example", 60, "a.example"), ("a.example", 60, "192.0.2.1")];
        assert_eq!(read(&reply(&itself)), Err(ResolveError::ServerFailed));
        let names: Vec<_> = (0..40).map(|n| format!("n{n}.example")).collect();
        let mut chain = vec![("a.example", 60, &names[0][..])];
        chain.extend(names.windows(2).map(|pair| (&pair[0][..], 60, &pair[1][..])));
        chain.push((&names[39], 60, "192.0.2.1"));
        assert_eq!(read(&reply(&chain)), Err(ResolveError::ServerFailed));
    }
}
