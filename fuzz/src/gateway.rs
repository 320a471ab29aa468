//! The runtime socket of the proxy.

/// What a client of the socket may send.
pub fn runtime_socket(data: &[u8]) {
    fulmar_gateway::runtime::testing::commands(data);
}
