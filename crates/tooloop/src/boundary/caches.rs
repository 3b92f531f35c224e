//! Where package managers and compilers keep what they have fetched and made.
//!
//! Everyday builds write there, so these are writable; what in them is run by name or steers
//! programs is not on the list. Who writes a cache can put something into it that a later build
//! outside of the sandbox uses, which is why it can be turned off.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// One tool's cache.
struct Cache {
    /// The variable that says where its folder is.
    variable: Option<&'static str>,
    /// Where it is otherwise, below the home folder.
    home: &'static str,
    /// What in it is writable; empty: all of it.
    parts: &'static [&'static str],
}

const fn cache(
    variable: Option<&'static str>,
    home: &'static str,
    parts: &'static [&'static str],
) -> Cache {
    Cache {
        variable,
        home,
        parts,
    }
}

#[rustfmt::skip]
static CACHES: [Cache; 44] = [
    cache(Some("CARGO_HOME"), ".cargo", &["registry", "git", ".package-cache", ".package-cache-mutate", ".global-cache", ".global-cache-journal"]),
    cache(Some("npm_config_cache"), ".npm", &["_cacache", "_logs", "_locks", "_update-notifier-last-checked"]),
    cache(Some("PIP_CACHE_DIR"), ".cache/pip", &[]),
    cache(Some("UV_CACHE_DIR"), ".cache/uv", &[]),
    cache(Some("PYTHONPYCACHEPREFIX"), ".cache/pycache", &[]),
    cache(Some("POETRY_CACHE_DIR"), ".cache/pypoetry", &["cache", "artifacts"]),
    cache(None, ".cache/pdm", &[]),
    cache(None, ".cache/pip-tools", &[]),
    cache(Some("CONDA_PKGS_DIRS"), ".conda/pkgs", &["cache"]),
    cache(Some("GOCACHE"), ".cache/go-build", &[]),
    cache(Some("GOMODCACHE"), "go/pkg/mod", &[]),
    cache(None, "go/pkg/sumdb", &[]),
    cache(Some("GOLANGCI_LINT_CACHE"), ".cache/golangci-lint", &[]),
    cache(Some("STATICCHECK_CACHE"), ".cache/staticcheck", &[]),
    cache(Some("CCACHE_DIR"), ".cache/ccache", &[]),
    cache(None, ".ccache", &[]),
    cache(Some("SCCACHE_DIR"), ".cache/sccache", &[]),
    cache(Some("YARN_CACHE_FOLDER"), ".cache/yarn", &[]),
    cache(None, ".yarn/berry", &["cache", "metadata", "index"]),
    cache(None, ".cache/pnpm", &[]),
    cache(None, ".local/share/pnpm", &["store"]),
    cache(None, ".pnpm-store", &[]),
    cache(None, ".bun/install", &["cache"]),
    cache(Some("DENO_DIR"), ".cache/deno", &[]),
    cache(None, ".cache/node-gyp", &[]),
    cache(None, ".cache/typescript", &[]),
    cache(None, ".cache/turbo", &[]),
    cache(Some("GRADLE_USER_HOME"), ".gradle", &["caches", "daemon", "native", "notifications", "workers", ".tmp"]),
    cache(None, ".m2", &["repository"]),
    cache(None, ".ivy2", &["cache", "local"]),
    cache(None, ".cache/coursier", &[]),
    cache(None, ".konan", &["cache"]),
    cache(Some("NUGET_PACKAGES"), ".nuget/packages", &[]),
    cache(None, ".local/share/NuGet", &["v3-cache", "http-cache"]),
    cache(Some("COMPOSER_CACHE_DIR"), ".cache/composer", &[]),
    cache(None, ".bundle", &["cache"]),
    cache(Some("PUB_CACHE"), ".pub-cache", &["hosted", "hosted-hashes", "git"]),
    cache(None, ".cache/rebar3", &[]),
    cache(None, ".hex", &["packages", "cache.ets"]),
    cache(None, ".cabal", &["packages"]),
    cache(Some("ZIG_GLOBAL_CACHE_DIR"), ".cache/zig", &[]),
    cache(None, ".cache/bazelisk", &["downloads"]),
    cache(None, ".cache/matplotlib", &[]),
    cache(None, ".cache/fontconfig", &[]),
];

/// What of the caches may be written, and what of them may not.
#[derive(Debug, Default)]
pub(super) struct Caches {
    pub(super) writable: Vec<PathBuf>,
    pub(super) protected: Vec<PathBuf>,
}

/// Sources of the Go module cache that the tool itself downloads and runs as another version of it.
const GO_TOOLCHAINS: &str = "golang.org";

/// The caches that are there.
pub(super) fn caches(home: &Path, variable: fn(&str) -> Option<OsString>) -> Caches {
    let mut caches = Caches::default();
    for cache in &CACHES {
        let told = cache.variable.and_then(variable).map(PathBuf::from);
        let folder = match told {
            // One that is turned off, or relative to who knows what.
            Some(path) if !path.is_absolute() => continue,
            Some(path) => path,
            None => home.join(cache.home),
        };
        let parts: &[&str] = if cache.parts.is_empty() {
            &[""]
        } else {
            cache.parts
        };
        for part in parts {
            let path = if part.is_empty() {
                folder.clone()
            } else {
                folder.join(part)
            };
            let Ok(path) = path.canonicalize() else {
                continue;
            };
            // A variable that names the home folder, or one above it, is no cache.
            if home.starts_with(&path) {
                continue;
            }
            if cache.home == "go/pkg/mod" {
                caches.protected.push(path.join(GO_TOOLCHAINS));
            }
            caches.writable.push(path);
        }
    }
    caches
}
