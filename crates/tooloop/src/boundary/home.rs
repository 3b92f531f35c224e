//! What in a home folder is run, or obeyed, without anybody calling it by name.
//!
//! It is on no list of what is writable; it counts where the home folder, or what lies in it, was
//! made writable as a whole.

use std::path::{Path, PathBuf};

#[rustfmt::skip]
const PROTECTED: [&str; 43] = [
    // Shells and sessions.
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
    ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".oh-my-zsh", ".kshrc", ".cshrc", ".tcshrc", ".login",
    ".config/fish", ".config/zsh", ".config/bash", ".config/environment.d", ".pam_environment",
    ".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".config/autostart", ".config/systemd", ".local/share/systemd",
    // Programs that are found by name.
    "bin", ".local/bin", ".cargo/bin", "go/bin",
    // What lets somebody in, or names programs that others run.
    ".ssh", ".gnupg", ".gitconfig", ".config/git", ".cargo/config.toml", ".cargo/config", ".npmrc", ".tmux.conf", ".vimrc",
    ".config/nvim",
];

/// What of it is never written.
pub(super) fn protected(home: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    PROTECTED.iter().map(|name| home.join(name))
}
