//! Which requests are answered.

use std::fmt;
use std::io;

use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Method, StatusCode};

/// What a request has to show.
pub(super) struct Gate {
    host: String,
    origin: String,
    token: String,
}

/// Why a request is not answered.
pub(super) type Refused = (StatusCode, &'static str);

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Gate {
    pub(super) fn new(host: String, token: String) -> Self {
        Self { origin: format!("http://{host}"), host, token }
    }

    /// Checks a request. Only the bare document needs no token.
    pub(super) fn check(
        &self,
        (method, path): (&Method, &str),
        headers: &HeaderMap,
    ) -> Result<(), Refused> {
        if single(headers, HOST.as_str()) != Ok(Some(&self.host)) {
            return Err((StatusCode::MISDIRECTED_REQUEST, "this is another host"));
        }
        let is_document = method == Method::GET && path == "/";
        let is_own = self.is_of_own_page(headers);
        let is_navigation = header(headers, "sec-fetch-mode") == Some("navigate")
            && header(headers, "sec-fetch-dest") == Some("document")
            && header(headers, ORIGIN.as_str()).is_none();
        // Anyone may link to the page.
        if !(is_own || is_document && is_navigation) {
            return Err((StatusCode::FORBIDDEN, "the request comes from another page"));
        }
        if is_document {
            return Ok(());
        }
        let given = single(headers, AUTHORIZATION.as_str()).unwrap_or_default();
        let given = given.and_then(|given| given.strip_prefix("Bearer ")).unwrap_or_default();
        if !is_equal(given, &self.token) {
            return Err((StatusCode::UNAUTHORIZED, "the token of the page's address is missing"));
        }
        if method == Method::POST
            && header(headers, CONTENT_TYPE.as_str()) != Some("application/json")
        {
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "a change is application/json"));
        }
        Ok(())
    }

    /// Returns whether a request comes from this page, or from no page at all.
    fn is_of_own_page(&self, headers: &HeaderMap) -> bool {
        let origin = single(headers, ORIGIN.as_str());
        let site = single(headers, "sec-fetch-site");
        origin.is_ok_and(|origin| origin.is_none_or(|origin| origin == self.origin))
            && site
                .is_ok_and(|site| site.is_none_or(|site| ["same-origin", "none"].contains(&site)))
    }
}

/// Returns a header that is there once at most; an error if it is there twice, or is no text.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ()> {
    let mut all = headers.get_all(name).iter();
    match (all.next().map(HeaderValue::to_str), all.next()) {
        (None, _) => Ok(None),
        (Some(Ok(text)), None) => Ok(Some(text)),
        _ => Err(()),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    single(headers, name).unwrap_or_default()
}

/// Compares two texts in a time that depends on their lengths alone.
fn is_equal(given: &str, expected: &str) -> bool {
    let pairs = given.bytes().zip(expected.bytes());
    let difference = pairs.fold(0, |difference, (a, b)| difference | (a ^ b));
    given.len() == expected.len() && std::hint::black_box(difference) == 0
}

/// Returns 128 random bits in hexadecimal digits.
pub(super) fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};
    use hyper::{Method, StatusCode};

    use super::Gate;

    const HOST: (&str, &str) = ("host", "127.0.0.1:90");
    const TOKEN: (&str, &str) = ("authorization", "Bearer secret");

    fn check(request: &str, headers: &[(&str, &str)]) -> u16 {
        let gate = Gate::new("127.0.0.1:90".to_owned(), "secret".to_owned());
        let (method, path) = request.split_once(' ').unwrap_or_default();
        let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap_or_else(|error| panic!("{error}"));
            let value = HeaderValue::from_str(value).unwrap_or_else(|error| panic!("{error}"));
            map.append(name, value);
        }
        gate.check((&method, path), &map)
            .map_or_else(|(status, _)| status, |()| StatusCode::OK)
            .as_u16()
    }

    #[test]
    fn the_host_is_the_one_that_was_bound() {
        assert_eq!(check("GET /api/boot", &[HOST, TOKEN]), 200);
        assert_eq!(check("GET /", &[HOST]), 200);
        for host in ["localhost:90", "127.0.0.1", "127.0.0.1:91", "evil", ""] {
            assert_eq!(check("GET /api/boot", &[("host", host), TOKEN]), 421, "{host}");
            assert_eq!(check("GET /", &[("host", host)]), 421, "{host}");
        }
        assert_eq!(check("GET /", &[]), 421);
        assert_eq!(check("GET /", &[HOST, HOST]), 421);
    }

    #[test]
    fn other_pages_are_refused() {
        let own = [("origin", "http://127.0.0.1:90"), ("sec-fetch-site", "same-origin")];
        assert_eq!(
            check(
                "POST /api/park",
                &[HOST, TOKEN, own[0], own[1], ("content-type", "application/json")]
            ),
            200
        );
        assert_eq!(check("GET /api/boot", &[HOST, TOKEN, ("sec-fetch-site", "none")]), 200);
        for other in [
            ("origin", "http://127.0.0.1:91"),
            ("origin", "http://localhost:90"),
            ("origin", "null"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
        ] {
            assert_eq!(check("GET /api/boot", &[HOST, TOKEN, other]), 403, "{other:?}");
            assert_eq!(check("GET /", &[HOST, other]), 403, "{other:?}");
        }
    }

    #[test]
    fn a_link_from_anywhere_leads_to_the_bare_page_alone() {
        let link = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        let with = |request, more: &[(&'static str, &'static str)]| {
            check(request, &[&[HOST, TOKEN], &link[..], more].concat())
        };

        assert_eq!(with("GET /", &[]), 200);
        assert_eq!(with("GET /api/boot", &[]), 403);
        assert_eq!(with("POST /", &[]), 403);
        assert_eq!(with("GET /", &[("origin", "http://evil")]), 403);
        let frame = [link[0], link[1], ("sec-fetch-dest", "iframe")];
        assert_eq!(check("GET /", &[&[HOST], &frame[..]].concat()), 403);
    }

    #[test]
    fn the_token_is_asked_for() {
        for token in
            ["Bearer secreT", "Bearer secre", "Bearer secrett", "secret", "Basic secret", ""]
        {
            assert_eq!(check("GET /api/boot", &[HOST, ("authorization", token)]), 401, "{token}");
        }
        assert_eq!(check("GET /api/boot", &[HOST]), 401);
        assert_eq!(check("GET /api/boot", &[HOST, TOKEN, TOKEN]), 401);
        assert_eq!(check("POST /", &[HOST]), 401);
    }

    #[test]
    fn a_change_is_json() {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json; a=b"] {
            assert_eq!(
                check("POST /api/park", &[HOST, TOKEN, ("content-type", kind)]),
                415,
                "{kind}"
            );
        }
        assert_eq!(check("POST /api/park", &[HOST, TOKEN]), 415);
    }
}
