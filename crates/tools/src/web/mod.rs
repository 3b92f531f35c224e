//! Pages of the web.
//!
//! A page is fetched, told as Markdown and given away in pieces. Which hosts may be talked to is
//! the policy's to say; that they are public ones is seen to here, for a name that means a host
//! inside of somebody's network is a way round every rule about hosts.

pub(crate) mod address;
mod cache;
mod client;
mod html;
mod image;
mod location;
mod markdown;
mod page;
mod table;
mod tags;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tooloop_model::Content;
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use cache::Cache;
use client::{Answer, Clients, Fetched};
use page::Page;

pub use client::{Names, NamesFuture, SystemNames};
pub use location::WebUrl;

/// The most bytes that are read of a body.
const MAX_BODY: usize = 5 << 20;

/// The most characters of a result.
const MAX_CHARACTERS: usize = 50_000;

/// How many of them are left for what stands around the piece of text.
const AROUND: usize = 10_000;

/// The most characters of an answer that tells of a failure.
const MAX_FAILURE: usize = 2_000;

/// Fetches pages.
#[derive(Debug)]
pub struct WebFetch {
    settings: Arc<WebFetchSettings>,
    clients: Arc<Clients>,
    cache: Mutex<Cache>,
}

/// What a [`WebFetch`] needs of the world.
#[derive(Debug, Clone)]
pub struct WebFetchSettings {
    /// Hosts that may be private all the same, such as a documentation server of one's own: each
    /// `host` or `host:port`. They are talked to without a proxy.
    pub private_hosts: Vec<String>,
    /// A file of certificates to trust beside those of the system.
    pub extra_ca: Option<PathBuf>,
    /// The time limit of a call, redirects included.
    pub time_limit: Duration,
    /// The time limit of a connection's beginning.
    pub connect_limit: Duration,
    /// Who tells the addresses of names.
    pub names: Arc<dyn Names>,
}

impl Default for WebFetchSettings {
    fn default() -> Self {
        Self {
            private_hosts: Vec::new(),
            extra_ca: None,
            time_limit: Duration::from_secs(30),
            connect_limit: Duration::from_secs(10),
            names: Arc::new(SystemNames),
        }
    }
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebFetchInput {
    /// The whole URL, http or https.
    pub url: WebUrl,
    /// The character to go on from.
    #[serde(default)]
    pub offset: u32,
}

impl WebFetch {
    /// A fetcher. Nothing is read and no connection made before the first call.
    #[must_use]
    pub fn new(settings: WebFetchSettings) -> Self {
        Self {
            clients: Arc::new(Clients::new(&settings)),
            settings: Arc::new(settings),
            cache: Mutex::default(),
        }
    }

    /// The page, and whether it was kept: `Err` holds an answer that is no page.
    async fn page(
        &self,
        input: &WebFetchInput,
        context: &ToolContext,
    ) -> Result<Result<Arc<Page>, ToolOutput>, ToolError> {
        let url = input.url.url().as_str();
        if input.offset > 0
            && let Some(page) = self.cache().get(url, Instant::now())
        {
            return Ok(Ok(page));
        }
        let fetched = tokio::select! {
            biased;
            () = context.cancellation.cancelled() => return Err(ToolError::Cancelled),
            fetched = self.clients.get(&input.url, &self.settings) => fetched,
            () = tokio::time::sleep(self.settings.time_limit) => Err(format!(
                "{} did not answer in full within {} s",
                input.url.host(),
                self.settings.time_limit.as_secs_f64()
            )),
        };
        let answer = match fetched.map_err(ToolError::Failed)? {
            Fetched::Answer(answer) => answer,
            Fetched::Elsewhere { status, from, to } => {
                return Ok(Err(ToolOutput::text(format!(
                    "{from}\nstatus {status}: it sends to another place, which was not \
                     fetched:\n{to}\nIf you want that, fetch it with a call of its own."
                ))));
            }
        };
        let page = Arc::new(self.read(answer, context).await?);
        self.cache().put(url, Arc::clone(&page), Instant::now());
        Ok(Ok(page))
    }

    /// Reads an answer where it may take its time.
    async fn read(&self, answer: Answer, context: &ToolContext) -> Result<Page, ToolError> {
        let cancellation = context.cancellation.clone();
        let read = tokio::task::spawn_blocking(move || page::read(&answer, &cancellation));
        match read.await {
            Ok(Some(page)) => Ok(page),
            Ok(None) => Err(ToolError::Cancelled),
            Err(_) => Err(ToolError::Failed(
                "the page was fetched, but it could not be converted to text".into(),
            )),
        }
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tool for WebFetch {
    type Input = WebFetchInput;

    fn name(&self) -> &'static str {
        "web_fetch"
    }

    fn description(&self) -> &'static str {
        "Fetches a public web page and returns it as Markdown; JSON, other text and pictures as \
         they are. Long pages come in pieces: the result says how to go on."
    }

    fn access(&self, input: &WebFetchInput) -> Access {
        Access::read_only().host(input.url.host())
    }

    async fn run(
        &self,
        input: WebFetchInput,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        match self.page(&input, context).await? {
            Ok(page) => output(&page, input.offset, context.room),
            Err(answered) => Ok(answered),
        }
    }

    fn for_session(&self, _: &Scope) -> Option<Self> {
        Some(Self {
            settings: Arc::clone(&self.settings),
            clients: Arc::clone(&self.clients),
            cache: Mutex::default(),
        })
    }
}

/// What the model is told of the body of a page, for a body that was got by another way than
/// [`WebFetch`], such as through a browser: Markdown, plain text or a picture, with a head of
/// address, type and size.
///
/// Bytes beyond the first 5 MiB are left out. A large page takes its time.
///
/// ```
/// use tooloop_model::Content;
/// use tooloop_tools::{WebUrl, page_output};
///
/// let url = WebUrl::parse("https://example.com/docs/")?;
/// let output = page_output(&url, "text/html", b"<p>See <a href=more>more</a>.".to_vec());
/// let [Content::Text(text)] = output.content.as_slice() else { panic!() };
/// assert!(text.ends_with("\nSee [more](https://example.com/docs/more)."));
/// # Ok::<(), String>(())
/// ```
#[must_use]
pub fn page_output(url: &WebUrl, content_type: &str, mut body: Vec<u8>) -> ToolOutput {
    let cut = body.len() > MAX_BODY;
    body.truncate(MAX_BODY);
    let answer = Answer {
        url: url.url().clone(),
        status: 200,
        content_type: content_type.trim().to_owned(),
        body,
        cut,
    };
    // Nobody has the token, so it does not fire; and nothing is before the first character.
    let page = page::read(&answer, &CancellationToken::new()).unwrap_or_default();
    output(&page, 0, usize::MAX).unwrap_or_else(|error| ToolOutput::failure(error.to_string()))
}

/// The piece of a page that begins at a character.
fn output(page: &Page, offset: u32, room: usize) -> Result<ToolOutput, ToolError> {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let all = page.text.chars().count();
    if offset > 0 && offset >= all {
        return Err(ToolError::Failed(format!(
            "offset {offset} is past the end: the page has {all} characters"
        )));
    }
    let room = if page.is_error {
        MAX_FAILURE
    } else {
        // The head has an address in it, which may be long.
        let around = page.head.chars().count().min(AROUND) + 200;
        let most = MAX_CHARACTERS.min(room);
        most.saturating_sub(around).max(most / 2)
    };
    let rest = page.text.chars().skip(offset);
    let mut piece: String = rest.take(room).collect();
    let mut end = offset.saturating_add(piece.chars().count());
    let mut text = page.head.clone();
    if end < all && !page.is_error {
        // Not in the middle of a line, if one ends nearby.
        let line = piece.rfind('\n').filter(|at| *at > piece.len() / 10 * 9);
        if let Some(at) = line {
            piece.truncate(at + 1);
            end = offset.saturating_add(piece.chars().count());
        }
    }
    if !piece.is_empty() {
        text.push('\n');
        text.push_str(piece.trim_end());
    }
    if end < all {
        let how = if page.is_error {
            String::new()
        } else {
            format!("; go on with offset {end}")
        };
        text.push_str(&format!("\n\n(characters {offset} to {end} of {all}{how})"));
    }
    let mut output = ToolOutput::text(text);
    output.is_error = page.is_error;
    if let Some(image) = &page.image {
        output.content.push(Content::Image(image.clone()));
    }
    Ok(output)
}

#[cfg(test)]
mod tests;
