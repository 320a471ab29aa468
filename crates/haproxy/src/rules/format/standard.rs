//! The predefined formats (HAProxy's manual, §8.2.1 to §8.2.5).

use super::{FormatOptions, FormatString};

/// A predefined format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// `option httplog`.
    Http,
    /// `option httplog clf`.
    HttpClf,
    /// `option httpslog`.
    Https,
    /// `option tcplog`.
    Tcp,
    /// The default in mode `http`: a line when a connection is accepted.
    ConnectHttp,
    /// The default in mode `tcp`.
    ConnectTcp,
    /// Without `error-log-format`: the start of a line about a failed connection. The listener's
    /// name or number and the reason follow.
    Error,
}

impl Standard {
    /// Its text, as for `log-format`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Http => {
                "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc \
                 %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r"
            }
            Self::HttpClf => {
                "%{+Q}o %{-Q}ci - - [%trg] %r %ST %B \"\" \"\" %cp %ms %ft %b %s %TR %Tw %Tc %Tr \
                 %Ta %tsc %ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl"
            }
            Self::Https => {
                "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc \
                 %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r \
                 %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] \
                 %[ssl_fc_sni]/%sslv/%sslc"
            }
            Self::Tcp => "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq",
            Self::ConnectHttp => "Connect from %ci:%cp to %fi:%fp (%f/HTTP)",
            Self::ConnectTcp => "Connect from %ci:%cp to %fi:%fp (%f/TCP)",
            Self::Error => "%ci:%cp [%t] %f/",
        }
    }
}

impl From<Standard> for FormatString {
    fn from(standard: Standard) -> Self {
        Self::parse(standard.text(), 1, FormatOptions::HTTP_LOG).expect("a test parses all of them")
    }
}
