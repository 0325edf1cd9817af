//! What the tests run as processes that become ready.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

use crate::running::TestResult;

/// Accepts connections at an address, for ever.
pub(crate) fn serve(address: &str) -> TestResult {
    for connection in TcpListener::bind(address)?.incoming() {
        drop(connection?);
    }
    Ok(())
}

/// Answers with two bad statuses and a good one, and ends when it is asked again.
pub(crate) fn serve_http(address: &str) -> TestResult {
    let mut answers = ["503 Busy", "404 None", "204 Fine"].iter();
    for connection in TcpListener::bind(address)?.incoming() {
        let mut connection = connection?;
        let lines = BufReader::new(&connection).lines();
        let lines = lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()));
        let request = lines.collect::<Result<Vec<_>, _>>()?;
        let answer = match request.first().map(String::as_str) {
            Some("GET /healthy?x=1 HTTP/1.1") => answers.next().ok_or("asked too often")?,
            _ => "400 Bad",
        };
        write!(connection, "HTTP/1.1 {answer}\r\n\r\n")?;
    }
    Ok(())
}

/// Says that it is ready, and goes on talking.
pub(crate) fn notify() -> TestResult {
    let path = std::env::var("NOTIFY_SOCKET")?;
    let socket = UnixDatagram::unbound()?;
    socket.send_to(b"STATUS=warming up\nX_MORE=1", &path)?;
    socket.send_to(b"READY=1\nSTATUS=serving", &path)?;
    // More than the kernel keeps: without a reader it would hang here.
    for count in 0..10_000 {
        socket.send_to(format!("STATUS={count}").as_bytes(), &path)?;
    }
    #[expect(clippy::disallowed_methods, reason = "the tests read it")]
    writeln!(std::io::stdout(), "all said")?;
    loop {
        std::thread::park();
    }
}
