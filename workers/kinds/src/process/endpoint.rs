//! Where a program answers.

use std::net::{Ipv4Addr, SocketAddr};

use crankcase_resources::dynamic::shown;
use crankcase_resources::{Field, Type, Wrong};
use serde_json::Value;

/// The port of HTTP, where a URL names none.
const HTTP: u16 = 80;

/// A port of 127.0.0.1, or an address with a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint(pub SocketAddr);

impl Field for Endpoint {
    fn ty() -> Type {
        Type::Either { of: vec![Type::Int { min: 1, max: u16::MAX.into() }, Type::Text] }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let address = match value {
            Value::Number(number) => {
                let port = number.as_u64().and_then(|port| u16::try_from(port).ok());
                port.map(own)
            }
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let address = address.filter(|address: &SocketAddr| address.port() != 0);
        address.map(Self).ok_or_else(|| {
            let shown = shown(value);
            let help = "is neither a port nor an address with one, as \"127.0.0.1:8080\"";
            format!("{shown} {help}").into()
        })
    }

    fn give(&self) -> Value {
        match self.0 {
            address if address == own(address.port()) => address.port().into(),
            address => address.to_string().into(),
        }
    }
}

/// What is asked for over plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    /// Where it is asked for.
    pub address: SocketAddr,
    /// What is asked for, from the first slash on.
    pub path: String,
}

impl HttpUrl {
    fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = match host.strip_prefix("localhost") {
            Some(port) if port.is_empty() || port.starts_with(':') => {
                format!("{}{port}", Ipv4Addr::LOCALHOST)
            }
            _ => host.to_owned(),
        };
        let without_port = || host.parse().ok().map(|address| SocketAddr::new(address, HTTP));
        let address: SocketAddr = host.parse().ok().or_else(without_port)?;
        let path = if path.is_empty() { "/" } else { path };
        let is_right = address.port() != 0 && path.bytes().all(|byte| byte.is_ascii_graphic());
        is_right.then(|| Self { address, path: path.to_owned() })
    }
}

impl Field for HttpUrl {
    fn ty() -> Type {
        Type::Text
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        value.as_str().and_then(Self::parse).ok_or_else(|| {
            let shown = shown(value);
            let help = "with an IP address or localhost";
            format!("{shown} is not like \"http://127.0.0.1:8080/health\", {help}").into()
        })
    }

    fn give(&self) -> Value {
        format!("http://{}{}", self.address, self.path).into()
    }
}

/// Returns the address of a port of this machine alone.
fn own(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[cfg(test)]
mod tests {
    use crankcase_resources::Field;
    use serde_json::{Value, json};

    use super::{Endpoint, HttpUrl};

    /// Returns the value as it is written after it was read; null if it is wrong.
    fn read<T: Field>(value: &Value) -> Value {
        T::take(value).map_or(Value::Null, |field| field.give())
    }

    #[test]
    fn an_endpoint_is_a_port_of_127_0_0_1_or_an_address() {
        for right in [json!(1), json!(65_535), json!("0.0.0.0:80"), json!("[::1]:80")] {
            assert_eq!(read::<Endpoint>(&right), right);
        }
        assert_eq!(read::<Endpoint>(&json!("127.0.0.1:80")), 80);
        for wrong in [json!(0), json!(65_536), json!(-1), json!(1.5), json!("80"), json!("::1:0")] {
            assert_eq!(read::<Endpoint>(&wrong), Value::Null, "{wrong}");
        }
    }

    #[test]
    fn a_url_has_an_address_and_a_path() {
        for (text, url) in [
            ("http://127.0.0.1:8080/health?x=1", "http://127.0.0.1:8080/health?x=1"),
            ("http://localhost:8080", "http://127.0.0.1:8080/"),
            ("http://localhost/up", "http://127.0.0.1:80/up"),
            ("http://10.0.0.1", "http://10.0.0.1:80/"),
            ("http://[::1]:8080/", "http://[::1]:8080/"),
        ] {
            assert_eq!(read::<HttpUrl>(&json!(text)), url, "{text}");
        }
        for wrong in [
            "",
            "127.0.0.1:80",
            "https://127.0.0.1/",
            "http://example.org/",
            "http://localhost1/",
            "http://10.0.0.1/a b",
        ] {
            assert_eq!(read::<HttpUrl>(&json!(wrong)), Value::Null, "{wrong}");
        }
    }
}
