//! What is known of models: a table compiled in, which settings may correct.
//!
//! A lookup reads the table line by line and decodes the one entry that it wants, since the whole
//! of it is never needed when a program starts.

use serde::Deserialize;
use tooloop_model::{ModelInfo, Price};

const BUILT_IN: &str = include_str!("models.toml");
const HEAD: &str = "[[model]]\n";

/// The model table.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModelTable {
    /// What settings say, which beats what is compiled in.
    corrections: Vec<Entry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "model")]
    models: Vec<Entry>,
}

/// One entry. What a correction leaves out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default)]
    family: bool,
    provider: Option<String>,
    window: Option<u64>,
    output: Option<u64>,
    images: Option<bool>,
    /// Input, output, cache read, cache write.
    price: Option<[f64; 4]>,
    #[serde(default)]
    default: bool,
}

/// Numbers for a model that nobody knows.
const UNKNOWN: ModelInfo = ModelInfo {
    context_window: 128_000,
    max_output_tokens: 8_192,
    price: None,
    images: false,
    structured_output: false,
};
/// The same where the model runs on this machine or in this network: what small models are mostly
/// started with.
const UNKNOWN_LOCAL: ModelInfo = ModelInfo {
    context_window: 32_768,
    max_output_tokens: 4_096,
    price: None,
    images: false,
    structured_output: false,
};

/// The providers that hold answers to a schema.
const HOLD_TO_SCHEMAS: [&str; 2] = ["anthropic", "openai"];

impl ModelTable {
    /// The table with corrections in the same TOML form.
    pub(crate) fn new(corrections: Option<&str>) -> Result<Self, String> {
        let Some(text) = corrections else {
            return Ok(Self::default());
        };
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        for entry in &file.models {
            let prices = entry.price.iter().flatten();
            if prices
                .into_iter()
                .any(|price| !price.is_finite() || *price < 0.0)
            {
                return Err(format!("the price of {} is no price", entry.name));
            }
            if entry.window == Some(0) || entry.output == Some(0) {
                return Err(format!("window and output of {} must not be 0", entry.name));
            }
        }
        Ok(Self {
            corrections: file.models,
        })
    }

    /// What is known of a model.
    pub(crate) fn info(&self, model: &str, local: bool) -> ModelInfo {
        let mut info = if local { UNKNOWN_LOCAL } else { UNKNOWN };
        if let Some(entry) = built_in(model) {
            entry.put_into(&mut info);
        }
        let corrections = self.corrections.iter();
        let names = corrections.map(|entry| (entry.name.as_str(), entry.family));
        if let Some(at) = best(names, model)
            && let Some(entry) = self.corrections.get(at)
        {
            entry.put_into(&mut info);
        }
        info
    }
}

impl Entry {
    fn put_into(&self, info: &mut ModelInfo) {
        info.context_window = self.window.unwrap_or(info.context_window);
        info.max_output_tokens = self.output.unwrap_or(info.max_output_tokens);
        info.images = self.images.unwrap_or(info.images);
        if let Some(provider) = &self.provider {
            info.structured_output = HOLD_TO_SCHEMAS.contains(&provider.as_str());
        }
        if let Some([input, output, cache_read, cache_write]) = self.price {
            info.price = Some(Price {
                input,
                output,
                cache_read,
                cache_write,
            });
        }
    }
}

/// Who serves a model, if its name tells.
pub(crate) fn provider_of(model: &str) -> Option<String> {
    built_in(model)?.provider
}

/// What a provider is asked for when no model is named.
pub(crate) fn default_model(provider: &str) -> Option<String> {
    let mut entries = chunks().filter(|chunk| chunk.contains("default = true"));
    let entry = entries.find_map(|chunk| {
        let entry = decode(chunk)?;
        (entry.provider.as_deref() == Some(provider)).then_some(entry)
    })?;
    Some(entry.name)
}

fn built_in(model: &str) -> Option<Entry> {
    // A router's name for a model has the provider before it, and prices of its own.
    let (routed, model) = match model.rsplit_once('/') {
        Some((_, model)) => (true, model.replace('.', "-")),
        None => (false, model.to_owned()),
    };
    let names = chunks().map(|chunk| (name_in(chunk), chunk.contains("\nfamily = true")));
    let at = best(names, &model)?;
    let mut entry = decode(chunks().nth(at)?)?;
    if routed {
        entry.price = None;
    }
    Some(entry)
}

/// The text of each entry.
fn chunks() -> impl Iterator<Item = &'static str> {
    BUILT_IN.split(HEAD).skip(1)
}

fn name_in(chunk: &str) -> &str {
    chunk
        .strip_prefix("name = \"")
        .and_then(|rest| rest.split_once('"'))
        .map_or("", |(name, _)| name)
}

fn decode(chunk: &str) -> Option<Entry> {
    toml::from_str(chunk).ok()
}

/// Which entry a model is, given the names and whether each is a family's: the longest name wins.
fn best<'a>(names: impl Iterator<Item = (&'a str, bool)>, model: &str) -> Option<usize> {
    names
        .enumerate()
        .filter(|(_, (name, family))| {
            model
                .strip_prefix(name)
                .is_some_and(|rest| *family || is_same_model(rest))
        })
        .max_by_key(|(_, (name, _))| name.len())
        .map(|(at, _)| at)
}

/// Whether what follows a known name leaves the model the same: nothing, a date, a place.
fn is_same_model(rest: &str) -> bool {
    if rest.is_empty() || rest == "-latest" || rest == "-0" || rest.starts_with('@') {
        return true;
    }
    let Some(date) = rest.strip_prefix('-') else {
        return false;
    };
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    digits == 8
        && date
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ModelTable {
        ModelTable::default()
    }

    #[test]
    fn every_entry_is_found_by_its_name() {
        let file: File = toml::from_str(BUILT_IN).unwrap();
        assert_eq!(file.models.len(), chunks().count());
        for entry in &file.models {
            assert_eq!(built_in(&entry.name).as_ref(), Some(entry));
            assert_eq!(entry.family, entry.price.is_none(), "{}", entry.name);
            assert!(entry.window > entry.output, "{}", entry.name);
            if let Some([input, output, read, write]) = entry.price {
                assert!(
                    read < input && input <= write && input < output,
                    "{}",
                    entry.name
                );
            }
        }
        for provider in ["anthropic", "openai"] {
            let defaults = file
                .models
                .iter()
                .filter(|entry| entry.default && entry.provider.as_deref() == Some(provider));
            assert_eq!(defaults.count(), 1);
            assert_eq!(
                provider_of(&default_model(provider).unwrap()).as_deref(),
                Some(provider)
            );
        }
    }

    #[test]
    fn names_with_dates_and_places() {
        let window = |model| table().info(model, false).context_window;
        let priced = |model| table().info(model, false).price.is_some();
        assert!(priced("claude-sonnet-4-5-20250929") && priced("claude-sonnet-4-5@20250929"));
        assert!(priced("gpt-4o-2024-08-06") && priced("claude-3-7-sonnet-latest"));
        // The mini is not the model it is the mini of, and a new one is no old one.
        assert_ne!(
            table().info("gpt-5-mini", false).price,
            table().info("gpt-5", false).price
        );
        assert!(!priced("gpt-5-giant") && window("gpt-5-giant") == 128_000);
        assert!(!priced("claude-next-9") && window("claude-next-9") == 200_000);
        assert!(
            !priced("anthropic/claude-sonnet-4.5")
                && window("anthropic/claude-sonnet-4.5") == 200_000
        );
        assert_eq!(table().info("llama", false), UNKNOWN);
        assert_eq!(table().info("llama", true), UNKNOWN_LOCAL);
    }

    #[test]
    fn settings_beat_the_table() {
        let table = ModelTable::new(Some(
            "[[model]]\nname = \"gpt-5\"\nprice = [1, 2, 3, 4]\n[[model]]\nname = \"mine\"\nwindow = 8000\n",
        ))
        .unwrap();
        let known = table.info("gpt-5", false);
        assert_eq!(known.context_window, 400_000);
        assert_eq!(known.price.unwrap().output, 2.0);
        assert_eq!(table.info("mine", false).context_window, 8_000);
        for wrong in [
            "[[model]]\nnam = \"x\"",
            "[[model]]\nname = \"x\"\nprice = [-1, 1, 1, 1]",
            "[[model]]\nname = \"x\"\nwindow = 0",
            "x",
        ] {
            assert!(ModelTable::new(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
