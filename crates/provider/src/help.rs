//! What a person is told about naming a model: the one place for it, since names of vendors end at
//! this crate.

/// For the flag that names a model.
pub const MODEL_HELP: &str = "The model: anthropic/NAME, openai/NAME, ollama/NAME or another \
     provider's, a well-known name alone, or any name with --base-url";

/// For somebody who has no model yet: what to do, in five lines.
pub const NO_MODEL_HELP: &str = "\
there is no model to talk to. Any of these will do:
  export ANTHROPIC_API_KEY=...  or  export OPENAI_API_KEY=...      a provider's key
  ollama serve  or another local server                            looked for on the usual ports, none answers
  tooloop --base-url http://HOST:PORT/v1 --model NAME \"...\"        any server of the usual formats
  tooloop demo                                                     see it work without a model";
