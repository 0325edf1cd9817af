//! Formats of identifiers, for the keyword `format` of JSON Schema.

/// A format: its name, its check, a help text and an example.
pub(crate) struct Format {
    pub(crate) name: &'static str,
    pub(crate) is: fn(&str) -> bool,
    pub(crate) help: &'static str,
    pub(crate) example: &'static str,
}

/// The formats that this crate adds to those of JSON Schema.
pub(crate) const FORMATS: [Format; 4] = [
    Format {
        name: "index",
        is: is_index,
        help: "an index is a whole number from 0, without leading zeros",
        example: "0",
    },
    Format {
        name: "fqdn",
        is: is_fqdn,
        help: "a host is named in full, such as h1.example.com",
        example: "h1.example.com",
    },
    Format {
        name: "mac",
        is: is_mac,
        help: "a MAC address is six pairs of hexadecimal digits, such as 00:50:56:00:00:01",
        example: "00:50:56:00:00:01",
    },
    Format {
        name: "wwn",
        is: is_wwn,
        help: "a WWN is 16 or 32 hexadecimal digits after 0x or wwn-0x, such as wwn-0x5000c500a1b2c3d4",
        example: "wwn-0x5000c500a1b2c3d4",
    },
];

/// The formats that JSON Schema defines.
pub(crate) const STANDARD: [&str; 19] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uuid",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

/// Returns the format with this name; none if this crate does not add one.
pub(crate) fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

fn is_index(text: &str) -> bool {
    crate::tree::index(text).is_some() && text.len() <= 18
}

fn is_fqdn(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_part)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.contains('.') && text.split('.').all(is_label)
}

fn is_mac(text: &str) -> bool {
    let is_pair = |pair: &str| pair.len() == 2 && is_hexadecimal(pair);
    text.split(':').count() == 6 && text.split(':').all(is_pair)
}

fn is_wwn(text: &str) -> bool {
    let digits = text.strip_prefix("wwn-").unwrap_or(text).strip_prefix("0x").unwrap_or_default();
    matches!(digits.len(), 16 | 32) && is_hexadecimal(digits)
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::{FORMATS, find};

    #[test]
    fn each_format_takes_its_example_and_refuses_what_is_near() {
        assert!(FORMATS.iter().all(|format| (format.is)(format.example)));
        for (name, wrong) in [
            ("index", "01"),
            ("index", "-1"),
            ("index", ""),
            ("index", "1e3"),
            ("fqdn", "h1"),
            ("fqdn", "h1..com"),
            ("fqdn", "-h.com"),
            ("fqdn", "h_1.com"),
            ("mac", "00:50:56:00:00"),
            ("mac", "00:50:56:00:00:0g"),
            ("mac", "0050.5600.0001"),
            ("wwn", "5000c500a1b2c3d4"),
            ("wwn", "0x5000c500a1b2c3d"),
            ("wwn", "0x5000c500a1b2c3dg"),
        ] {
            assert!(find(name).is_some_and(|format| !(format.is)(wrong)), "{name}: {wrong}");
        }
    }
}
