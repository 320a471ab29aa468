//! The options of `curl_multi_setopt`.

use crate::code::MultiCode;
use crate::easy_options::Argument;
use crate::values::CPointer;

/// The options of a multi handle (curl_multi_setopt(3)).
#[derive(Clone, Debug)]
pub struct MultiOptions {
    pub(crate) socket_function: CPointer,
    pub(crate) socket_data: CPointer,
    pub(crate) timer_function: CPointer,
    pub(crate) timer_data: CPointer,
    /// Connections to keep; 0: no limit, below 0: four for each handle.
    pub(crate) connects_max: i64,
    /// Connections to one host, and in all; 0: no limit.
    pub(crate) host_connections_max: i64,
    pub(crate) total_connections_max: i64,
    pub(crate) streams_max: i64,
    /// Connections of HTTP/2 carry several exchanges at a time.
    pub(crate) multiplexes: bool,
}

impl Default for MultiOptions {
    fn default() -> Self {
        Self {
            socket_function: CPointer::NULL,
            socket_data: CPointer::NULL,
            timer_function: CPointer::NULL,
            timer_data: CPointer::NULL,
            connects_max: -1,
            host_connections_max: 0,
            total_connections_max: 0,
            streams_max: STREAMS_DEFAULT,
            multiplexes: true,
        }
    }
}

impl MultiOptions {
    /// True if connections may be closed for others.
    pub(crate) fn limits_connections(&self) -> bool {
        self.host_connections_max > 0 || self.total_connections_max > 0
    }

    /// Sets an option.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn set(&mut self, option: i32, argument: Argument<'_>) -> Result<(), MultiCode> {
        match (option, argument) {
            (SOCKET_FUNCTION, Argument::Pointer(function)) => self.socket_function = function,
            (SOCKET_DATA, Argument::Pointer(data)) => self.socket_data = data,
            (TIMER_FUNCTION, Argument::Pointer(function)) => self.timer_function = function,
            (TIMER_DATA, Argument::Pointer(data)) => self.timer_data = data,
            (MAX_CONNECTS, Argument::Number(number)) => self.connects_max = number,
            (MAX_HOST_CONNECTIONS, Argument::Number(number)) => self.host_connections_max = number,
            (MAX_TOTAL_CONNECTIONS, Argument::Number(number)) => {
                self.total_connections_max = number;
            }
            (MAX_CONCURRENT_STREAMS, Argument::Number(number)) => {
                let is_valid = (1..=i64::from(i32::MAX)).contains(&number);
                self.streams_max = if is_valid { number } else { STREAMS_DEFAULT };
            }
            (PIPELINING, Argument::Number(bits)) => self.multiplexes = bits & PIPE_MULTIPLEX != 0,
            // Pipelining of HTTP/1.1 is accepted and has no effect, as in libcurl; there is no
            // push.
            (MAX_PIPELINE_LENGTH, Argument::Number(_))
            | (CONTENT_LENGTH_PENALTY_SIZE | CHUNK_LENGTH_PENALTY_SIZE, Argument::Number(_))
            | (
                PIPELINING_SITE_BL | PIPELINING_SERVER_BL | PUSH_FUNCTION | PUSH_DATA,
                Argument::Pointer(_),
            ) => {}
            _ => return Err(MultiCode::UnknownOption),
        }
        Ok(())
    }
}

const SOCKET_FUNCTION: i32 = 20_001;
const SOCKET_DATA: i32 = 10_002;
const PIPELINING: i32 = 3;
const TIMER_FUNCTION: i32 = 20_004;
const TIMER_DATA: i32 = 10_005;
const MAX_CONNECTS: i32 = 6;
const MAX_HOST_CONNECTIONS: i32 = 7;
const MAX_PIPELINE_LENGTH: i32 = 8;
const CONTENT_LENGTH_PENALTY_SIZE: i32 = 30_009;
const CHUNK_LENGTH_PENALTY_SIZE: i32 = 30_010;
const PIPELINING_SITE_BL: i32 = 10_011;
const PIPELINING_SERVER_BL: i32 = 10_012;
const MAX_TOTAL_CONNECTIONS: i32 = 13;
const PUSH_FUNCTION: i32 = 20_014;
const PUSH_DATA: i32 = 10_015;
const MAX_CONCURRENT_STREAMS: i32 = 16;
const STREAMS_DEFAULT: i64 = 100;
/// `CURLPIPE_MULTIPLEX`.
const PIPE_MULTIPLEX: i64 = 2;
