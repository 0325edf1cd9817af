//! Asks whether a process answers.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// How long to wait between two attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// How much of an answer is read for its status, in bytes.
const MAX_STATUS: u64 = 256;

/// How much of the rest of an answer is read, in bytes.
const MAX_REST: u64 = 64 * 1024;

/// For how long the rest of an answer is read.
const REST: Duration = Duration::from_secs(1);

/// What is asked.
#[derive(Debug, Clone)]
pub(super) enum Probe {
    Port(SocketAddr),
    Http { address: SocketAddr, path: String },
}

impl Probe {
    /// Returns whether something accepts connections at the address.
    pub(super) async fn is_taken(address: SocketAddr) -> bool {
        timeout(ATTEMPT, connect(address)).await.is_ok_and(|taken| taken.is_ok())
    }

    /// Asks until the answer is good; `missing` gets the error of the last attempt that failed.
    /// Cancel safe.
    pub(super) async fn until_answered(&self, missing: &Mutex<Option<String>>) {
        while let Err(text) = self.attempt(ATTEMPT).await {
            *missing.lock() = Some(text);
            sleep(PAUSE).await;
        }
    }

    /// Asks once, for at most this time. The error says what came in place of a good answer. Cancel
    /// safe.
    pub(super) async fn attempt(&self, within: Duration) -> Result<(), String> {
        let asked = timeout(within, self.ask()).await;
        let asked = asked.map_err(|_| format!("{self}: no answer within {within:?}"))?;
        let Answer { status, rest } = asked.map_err(|err| format!("{self}: {err}"))?;
        read_rest(rest).await;
        match (self, status) {
            (Self::Port(_), _) | (Self::Http { .. }, Some(200..=399)) => Ok(()),
            (Self::Http { .. }, Some(status)) => Err(format!("{self}: status {status}")),
            (Self::Http { .. }, None) => Err(format!("{self}: the answer is not HTTP")),
        }
    }

    async fn ask(&self) -> io::Result<Answer> {
        let (address, path) = match self {
            Self::Port(address) => {
                connect(*address).await?;
                return Ok(Answer::default());
            }
            Self::Http { address, path } => (address, path),
        };
        let mut stream = connect(*address).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: crankcase\r\nAccept: */*\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        let mut stream = stream.take(MAX_STATUS);
        while !answer.contains(&b'\n') && stream.read_buf(&mut answer).await? > 0 {}
        let status = status_of(&answer);
        // A server that does not speak HTTP need not end its answer.
        Ok(Answer { status, rest: status.map(|_| stream.into_inner()) })
    }
}

/// The begin of an answer.
#[derive(Debug, Default)]
struct Answer {
    /// The status, if it is HTTP.
    status: Option<u16>,
    /// What gives the rest, if there is one.
    rest: Option<TcpStream>,
}

/// Reads an answer to its end: a server that cannot send all of it may report that as an error. The
/// status is known by then, so that it does not matter how the read ends.
async fn read_rest(rest: Option<TcpStream>) {
    let Some(rest) = rest else { return };
    let (mut rest, mut nowhere) = (rest.take(MAX_REST), tokio::io::sink());
    let _read = timeout(REST, tokio::io::copy(&mut rest, &mut nowhere)).await;
}

/// Connects to who listens at the address.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    connect_by(socket, address).await
}

/// Connects to another socket than this one.
///
/// Where nobody listens, and the port is one of those that the kernel hands out, it may hand out this
/// very port: TCP then connects the socket to itself.
async fn connect_by(socket: TcpSocket, address: SocketAddr) -> io::Result<TcpStream> {
    let stream = socket.connect(address).await?;
    if stream.local_addr()? == stream.peer_addr()? {
        // Closed at once, without the minute in which nobody could listen at the port.
        stream.set_zero_linger()?;
        return Err(Errno::CONNREFUSED.into());
    }
    Ok(stream)
}

/// Returns the status in the first line of an answer.
fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let version = words.next()?;
    version.strip_prefix("HTTP/1.")?;
    words.next().filter(|status| status.len() == 3)?.parse().ok()
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(address) => write!(f, "connect to {address}"),
            Self::Http { address, path } => write!(f, "GET http://{address}{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use parking_lot::Mutex;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket};
    use tokio::time::timeout;

    use super::{Probe, connect_by, status_of};

    /// Returns what is said of a server that gives this answer, once it is asked a second time.
    async fn said_of(answer: &[u8]) -> std::io::Result<Option<String>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let probe = Probe::Http { address: listener.local_addr()?, path: "/".to_owned() };
        let said = Mutex::new(None);
        let serve = async {
            let (mut connection, _) = listener.accept().await?;
            let _request = connection.read(&mut [0; 1024]).await?;
            // Who has read enough may have hung up.
            let _written = connection.write_all(answer).await;
            drop(connection);
            listener.accept().await
        };
        let served = async {
            tokio::select! {
                biased;
                served = serve => served.map(drop),
                () = probe.until_answered(&said) => Err(std::io::Error::other("it is ready")),
            }
        };
        timeout(Duration::from_secs(60), served).await.expect("the test hangs")?;
        Ok(said.into_inner())
    }

    #[tokio::test]
    async fn what_a_server_answers_instead_is_said() -> std::io::Result<()> {
        let cases = [
            (&b"HTTP/1.1 503 Busy\r\n\r\n"[..], "status 503"),
            (b"SSH-2.0-it\r\n", "the answer is not HTTP"),
            (b"", "the answer is not HTTP"),
            (&[b'x'; 100_000], "the answer is not HTTP"),
        ];
        for (answer, expected) in cases {
            let said = said_of(answer).await?.unwrap_or_default();
            assert!(said.starts_with("GET http://127.0.0.1:"), "{said}");
            assert!(said.ends_with(expected), "{said}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn an_answer_is_read_to_its_end() -> std::io::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let probe = Probe::Http { address: listener.local_addr()?, path: "/".to_owned() };
        let serve = async {
            let (mut connection, _) = listener.accept().await?;
            let _request = connection.read(&mut [0; 1024]).await?;
            connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            connection.write_all(&[b'x'; 4096]).await?;
            connection.shutdown().await?;
            connection.read(&mut [0; 1]).await
        };

        let (served, asked) = tokio::join!(serve, probe.attempt(Duration::from_secs(60)));

        assert_eq!(served?, 0);
        assert_eq!(asked, Ok(()));
        Ok(())
    }

    #[tokio::test]
    async fn who_reaches_itself_is_refused_and_leaves_the_port_free() -> std::io::Result<()> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;

        let refused = connect_by(socket, address).await.map(drop).map_err(|err| err.kind());

        assert_eq!(refused, Err(ErrorKind::ConnectionRefused));
        // As a server may that does not ask for SO_REUSEADDR.
        TcpSocket::new_v4()?.bind(address)
    }

    #[test]
    fn the_status_is_the_second_word_of_an_http_1_answer() {
        assert_eq!(status_of(b"HTTP/1.1 204 No Content\r\n\r\n"), Some(204));
        assert_eq!(status_of(b"HTTP/1.0 503\n"), Some(503));
        for answer in
            ["", "HTTP/1.1", "HTTP/2 200", "SSH-2.0-x\r\n", "HTTP/1.1 2000 x", "HTTP/1.1 2x0"]
        {
            assert_eq!(status_of(answer.as_bytes()), None, "{answer}");
        }
    }
}
