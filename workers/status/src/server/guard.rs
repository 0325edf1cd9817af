//! Requests that are refused whatever they ask for.

use std::net::IpAddr;

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderName, HeaderValue};

use super::answer::Refusal;
use crate::http::Peer;
use crate::wire::FailureCode;

/// What metrics are asked with: collectors know no other.
pub(super) const METRICS: &str = "/metrics";

/// Refuses what a page in a browser sends. The socket may be forwarded to a port, and any page could ask there.
pub(super) fn refuse_browsers(request: &Request<Incoming>) -> Result<(), Refusal> {
    let mut names = request.headers().keys().map(HeaderName::as_str);
    if let Some(name) = names.find(|name| *name == "origin" || name.starts_with("sec-fetch-")) {
        let message = format!("browsers are not answered; the request has {name:?}");
        return Err(Refusal::malformed(message));
    }
    Ok(())
}

/// Refuses a request to a host that is not this machine. The socket may be forwarded to a port, and a page whose name
/// leads there sends nothing else that tells it from a program.
pub(super) fn require_own_host(request: &Request<Incoming>) -> Result<(), Refusal> {
    let mut hosts = request.headers().get_all(HOST).iter().map(HeaderValue::to_str);
    let host = match (hosts.next(), hosts.next()) {
        (Some(Ok(host)), None) if request.uri().authority().is_none() => host,
        _ => return Err(Refusal::malformed("the request does not name one host")),
    };
    let is_loopback = |it: &str| it.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    let name = name.map_or(host, |(name, _)| name);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if ["agent", "localhost"].contains(&name) || is_loopback(bare) {
        return Ok(());
    }
    Err(Refusal::malformed(format!("{host:?} is not this machine; the host is agent or localhost")))
}

/// Notes that the whole request is there, and that the connection gives way to no other any more.
pub(super) fn whole(peer: &Peer) -> Result<(), Refusal> {
    if peer.entry.finish() {
        return Ok(());
    }
    Err(Refusal::new(FailureCode::Busy, "others have taken its place meanwhile"))
}
