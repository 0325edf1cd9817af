//! The schemas of the RFC for initial data, with data of real size.

use std::error::Error;
use std::fs;
use std::path::Path;

use crankcase_facts::Outcome;
use serde_json::{Map, Value, json};

use crate::support::{TestResult, World, refused};

const HOSTS: usize = 10;
const DEVICES: usize = 80;

/// Registers the schemas of the documentation.
fn registered() -> TestResult<World> {
    let world = World::new()?;
    for name in ["racks", "mero", "halon"] {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/facts/{name}.yaml"));
        let options = serde_saphyr::options! { strict_booleans: true };
        let schema: Value =
            serde_saphyr::from_str_with_options(&fs::read_to_string(file)?, options)?;
        world.register(&format!("/{name}"), schema)?;
    }
    Ok(world)
}

fn host(index: usize) -> String {
    format!("h{index}.example.com")
}

fn map(count: usize, member: impl Fn(usize) -> (String, Value)) -> Value {
    (0..count).map(member).collect::<Map<_, _>>().into()
}

/// Returns facts of ten hosts, each with its devices and services.
fn facts() -> Value {
    let interface = |at: usize| {
        let interfaces = json!({format!("00:50:56:00:{at:02x}:01"): {"net": "data", "addresses": [format!("10.1.0.{at}")]},
                                format!("00:50:56:00:{at:02x}:02"): {"net": "management"}});
        (host(at), json!({"mem": 65536, "nr_cpu": 16, "interfaces": interfaces}))
    };
    let device = |server: usize, at: usize| {
        let wwn = format!("wwn-0x5000c500{:08x}", server * 1000 + at);
        (
            wwn.clone(),
            json!({"path": format!("/dev/disk/by-id/{wwn}"), "serial": format!("Z{server}{at}"),
                             "size": 4_000_787_030_016_u64, "bsize": 4096}),
        )
    };
    let service = |name: &str, server: usize| json!({"endpoints": [format!("10.1.0.{server}@tcp:12345:41:{}", name.len())]});
    let server = |at: usize| {
        let services: Map<String, Value> = ["ioservice", "rmservice", "sss"]
            .map(|name| (name.to_owned(), service(name, at)))
            .into_iter()
            .collect();
        (
            host(at),
            json!({"mem_as": 0, "mem_rss": 65536, "devices": map(DEVICES, |it| device(at, it)), "services": services}),
        )
    };
    let node = |at: usize| {
        (
            format!("10.1.0.{at}:9070"),
            json!({"host": host(at), "roles": ["satellite", "storage"], "services": {"noisy": {}}}),
        )
    };
    let bmc = json!({"addr": "10.0.0.1", "user": "admin", "password": "hunter2"});
    json!({
        "racks": {"0": {"enclosures": {"0": {"bmc": bmc, "hosts": map(HOSTS, interface)}}}},
        "mero": {"globals": {"n": 8, "k": 2, "s": 2, "pw": 80}, "servers": map(HOSTS, server)},
        "halon": {"nodes": map(HOSTS, node), "clients": [], "stations": ["10.1.0.0:9070"], "rules": {}},
    })
}

#[test]
fn data_of_real_size_fits() -> TestResult {
    let world = registered()?;
    let facts = facts();
    let lines = serde_saphyr::to_string(&facts)?.lines().count();
    assert!(lines > 3_800, "{lines} lines");

    world.load(1, facts)?;

    world.ops(json!([
        ["SET", "/mero/globals/n", 4],
        ["SET", "/racks/0/enclosures/0/bmc/addr", "10.0.0.2"]
    ]))?;
    Ok(())
}

#[test]
fn each_mistake_is_told() -> TestResult {
    let world = registered()?;
    world.load(1, facts())?;
    let change = |path: &str, data: Value| -> Result<Vec<String>, Box<dyn Error>> {
        let result: Result<Outcome, _> = world.ops(json!([["SET", path, data]]));
        Ok(refused(result).lines().map(str::to_owned).collect())
    };
    let host = "/racks/0/enclosures/0/hosts/h0.example.com";
    let server = "/mero/servers/h0.example.com";
    for (path, data, with) in [
        (
            "/racks/one",
            json!({}),
            "/racks/one: the name is not a \"index\"; an index is a whole number",
        ),
        (
            "/racks/0/enclosures/top",
            json!({}),
            "/racks/0/enclosures/top: the name is not a \"index\"",
        ),
        (
            "/racks/0/enclosures/0/hosts/h9",
            json!({"interfaces": {"00:50:56:00:00:99": {"net": "data"}}}),
            "/racks/0/enclosures/0/hosts/h9: the name is not a \"fqdn\"",
        ),
        (
            &format!("{host}/interfaces/eth0"),
            json!({"net": "data"}),
            "/interfaces/eth0: the name is not a \"mac\"",
        ),
        (
            &format!("{host}/interfaces/00:50:56:00:00:01/net"),
            json!("date"),
            "/net: the value is not one of",
        ),
        (
            &format!("{server}/devices/sda"),
            json!({"path": "/dev/sda", "size": 1, "bsize": 1}),
            "/devices/sda: the name is not a \"wwn\"; a WWN is 16 or 32 hexadecimal digits",
        ),
        (
            &format!("{server}/services/ioservise"),
            json!({"endpoints": ["x"]}),
            "/services/ioservise: the name is not one of",
        ),
        (
            "/mero/servers/h77.example.com",
            json!({}),
            "/mero/servers/h77.example.com: there is no \"h77.example.com\" at /racks/*",
        ),
        (
            "/mero/globals/nn",
            json!(1),
            "/mero/globals/nn: the schema knows no such fact; did you mean \"n\"?",
        ),
        (
            "/halon/nodes/10.1.0.0:9070/host",
            json!("h1.example.com"),
            "/host: it stays as it was set first",
        ),
        (
            "/halon/stations",
            json!(["10.9.9.9:9070"]),
            "/halon/stations/0: there is no \"10.9.9.9:9070\" at /halon/nodes/*",
        ),
        (
            "/racks/0/enclosures/0/bmc/password",
            json!(""),
            "/bmc/password: the value is shorter than 1 character",
        ),
    ] {
        let errors = change(path, data)?;
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(with), "{errors:?} without {with}");
    }
    assert!(
        !world
            .facts
            .current()
            .redacted(&"/racks".parse()?)
            .unwrap_or_default()
            .to_string()
            .contains("hunter2")
    );
    Ok(())
}
