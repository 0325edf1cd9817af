//! A real browser, told what to do by its driver.

use std::path::Path;
use std::process::Stdio;

use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::machine::within;
use crate::world::{Error, TestResult};

/// A browser with its driver; both end with it.
pub(crate) struct Browser {
    pub(crate) client: Client,
    driver: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser; none if it is not installed.
    #[expect(clippy::print_stderr, reason = "a test that was left out says so")]
    pub(crate) async fn start((width, height): (u32, u32)) -> Result<Option<Self>, Error> {
        let mut driver = Command::new("chromedriver");
        driver.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut driver = match driver.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("left out: the browser's driver is not installed");
                return Ok(None);
            }
            driver => driver?,
        };
        let mut lines = BufReader::new(driver.stdout.take().ok_or("no stdout")?).lines();
        let port = loop {
            let line = within(lines.next_line()).await??.ok_or("the driver has ended")?;
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        let profile = tempfile::tempdir()?;
        // The window of a browser is never as narrow as a phone; what it emulates is.
        let screen = json!({"deviceMetrics": {"width": width, "height": height, "pixelRatio": 1}});
        let options = json!({"mobileEmulation": screen, "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--window-size=1280,1024",
            format!("--user-data-dir={}", profile.path().display()),
        ]});
        let mut capabilities = Capabilities::new();
        capabilities.insert("goog:chromeOptions".to_owned(), options);
        let connector = HttpConnector::new();
        let mut builder = ClientBuilder::new(connector);
        builder.capabilities(capabilities);
        let client = within(builder.connect(&format!("http://127.0.0.1:{port}"))).await??;
        Ok(Some(Self { client, driver, _profile: profile }))
    }

    pub(crate) async fn close(mut self) -> TestResult {
        within(self.client.clone().close()).await??;
        self.driver.kill().await?;
        Ok(())
    }

    /// Waits until something is in the document, and returns its text.
    pub(crate) async fn text(&self, selector: &str) -> Result<String, Error> {
        let text = self.until(selector, "it.innerText ?? it.textContent").await?;
        Ok(text.as_str().ok_or("it has no text")?.to_owned())
    }

    pub(crate) async fn click(&self, selector: &str) -> TestResult {
        self.until(selector, "(it.click(), true)").await.map(drop)
    }

    /// Waits until something is in the document, and returns what a script says of it then. In one step: what was
    /// found may be drawn anew at any time.
    async fn until(&self, selector: &str, script: &str) -> Result<Value, Error> {
        let selector = json!(selector);
        let script = format!(
            "const it = document.querySelector({selector}); return it === null ? null : {script}"
        );
        let waited = async {
            loop {
                let found = self.client.execute(&script, Vec::new()).await?;
                if !found.is_null() {
                    return Ok::<_, Error>(found);
                }
            }
        };
        let late = |_| format!("nothing is {selector}");
        within(waited).await.map_err(late)?
    }

    pub(crate) async fn run(&self, script: &str) -> Result<Value, Error> {
        Ok(within(self.client.execute(script, Vec::new())).await??)
    }

    /// Saves a picture of the page for the documentation, if that is asked for.
    pub(crate) async fn picture(&self, name: &str) -> TestResult {
        if std::env::var_os("CRANKCASE_WRITE_PAGES").is_some() {
            let picture = within(self.client.screenshot()).await??;
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/seeing").join(name);
            std::fs::write(file, picture)?;
        }
        Ok(())
    }
}
