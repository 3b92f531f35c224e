//! What is known of models.

use tooloop_model::ModelInfo;

/// The model table.
#[derive(Debug)]
pub(crate) struct ModelTable {}

impl ModelTable {
    pub(crate) fn new(_overrides: Option<&str>) -> Result<Self, String> {
        Ok(Self {})
    }

    pub(crate) fn info(&self, _model: &str, local: bool) -> ModelInfo {
        if local {
            ModelInfo {
                context_window: 32_768,
                max_output_tokens: 4_096,
                price: None,
                images: false,
            }
        } else {
            ModelInfo {
                context_window: 128_000,
                max_output_tokens: 8_192,
                price: None,
                images: false,
            }
        }
    }
}
