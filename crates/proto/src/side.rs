//! The differences between the two ends of a connection: which heads it sends and receives.

use std::fmt::Debug;

use crate::event::{Client, Role, Server};
use crate::head::{Request, Response};
use crate::status_aliases::StatusAliases;

/// A role as the machines of HTTP/1 and HTTP/2 see it: [`Server`] and [`Client`].
pub trait Side: Role {
    /// True for the end that receives requests and responds to them.
    const SERVER: bool;

    /// What a client accepts as status lines besides those of HTTP. A server has no memory for it.
    type Aliases: Debug + Default + Send;

    /// The aliases of a client.
    fn aliases(aliases: &Self::Aliases) -> Option<&StatusAliases>;

    /// A head that has arrived, as this role receives it.
    ///
    /// # Panics
    /// If it is of the other kind: the machine of a role parses what that role receives.
    fn received(head: Head<'_>) -> Self::Recv<'_>;

    /// A head of this role's, to be sent.
    fn sent<'a>(head: Self::Send<'a>) -> Head<'a>;
}

/// The head of either kind of message.
#[derive(Clone, Copy, Debug)]
pub enum Head<'a> {
    /// From client to server.
    Request(Request<'a>),
    /// From server to client.
    Response(Response<'a>),
}

impl Side for Server {
    const SERVER: bool = true;

    type Aliases = ();

    fn aliases((): &()) -> Option<&StatusAliases> {
        None
    }

    fn received(head: Head<'_>) -> Request<'_> {
        match head {
            Head::Request(request) => request,
            Head::Response(_) => unreachable!("a server parses requests"),
        }
    }

    fn sent<'a>(head: Self::Send<'a>) -> Head<'a> {
        Head::Response(head)
    }
}

impl Side for Client {
    const SERVER: bool = false;

    type Aliases = StatusAliases;

    fn aliases(aliases: &StatusAliases) -> Option<&StatusAliases> {
        Some(aliases)
    }

    fn received(head: Head<'_>) -> Response<'_> {
        match head {
            Head::Response(response) => response,
            Head::Request(_) => unreachable!("a client parses responses"),
        }
    }

    fn sent<'a>(head: Self::Send<'a>) -> Head<'a> {
        Head::Request(head)
    }
}
