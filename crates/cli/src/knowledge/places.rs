//! The folders in which skills and commands lie, the strongest first: the project's before the user's, the
//! nearer before the farther, ours before others'.

use std::path::{Path, PathBuf};

use tooloop::provider::compat;
use tooloop::tools::Place;

/// The folders that are looked into.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) skills: Vec<Place>,
    pub(crate) commands: Vec<Place>,
}

const SKILLS: [&str; 3] = [".tooloop/skills", ".agents/skills", compat::SKILLS];
const COMMANDS: [&str; 2] = [".tooloop/commands", compat::COMMANDS];

impl Places {
    pub(crate) fn of(workspace: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let absolute = |name: &str| {
            let path = PathBuf::from(environment(name)?);
            path.is_absolute().then_some(path)
        };
        let home = absolute("HOME");
        let ours = absolute("XDG_CONFIG_HOME")
            .or_else(|| Some(home.as_ref()?.join(".config")))
            .map(|folder| folder.join("tooloop"));
        let others = absolute(compat::USER_FOLDER_VARIABLE)
            .or_else(|| Some(home.as_ref()?.join(compat::USER_FOLDER)));
        let of_user = |folders: [(&Option<PathBuf>, &str); 3]| -> Vec<PathBuf> {
            let folders = folders.into_iter();
            folders
                .filter_map(|(base, name)| Some(base.as_ref()?.join(name)))
                .collect()
        };
        let root = repository(workspace).unwrap_or(workspace);
        let all = |names: &[&str], user: Vec<PathBuf>| {
            let mut places = Vec::new();
            for folder in workspace.ancestors() {
                let paths = names.iter().map(|name| folder.join(name));
                // In a home folder that is worked in these are the user's own.
                let paths = paths.filter(|path| !user.contains(path));
                places.extend(paths.map(|path| Place::of_project(path, root)));
                if folder == root {
                    break;
                }
            }
            places.extend(user.into_iter().map(Place::of_user));
            places
        };
        Self {
            skills: all(
                &SKILLS,
                of_user([
                    (&ours, "skills"),
                    (&home, ".agents/skills"),
                    (&others, "skills"),
                ]),
            ),
            commands: all(
                &COMMANDS,
                of_user([(&ours, "commands"), (&None, ""), (&others, "commands")]),
            ),
        }
    }
}

/// The nearest folder upwards in which a repository or a working tree of one begins.
pub(super) fn repository(workspace: &Path) -> Option<&Path> {
    let mut above = workspace.ancestors();
    above.find(|folder| folder.join(".git").symlink_metadata().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_and_our_own_come_first() {
        let held = tempfile::tempdir().unwrap();
        let home = held.path().canonicalize().unwrap();
        let root = home.join("work/project");
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::create_dir_all(root.join("crate")).unwrap();
        let variables = |name: &str| (name == "HOME").then(|| home.display().to_string());
        let shown = |places: &[Place]| -> Vec<String> {
            let paths = places.iter().map(|place| {
                let path = place.path.strip_prefix(&home).unwrap().display();
                format!(
                    "{path}{}",
                    if place.within.is_some() {
                        ""
                    } else {
                        " (user)"
                    }
                )
            });
            paths.collect()
        };
        let places = Places::of(&root.join("crate"), &variables);
        assert_eq!(
            shown(&places.commands),
            [
                "work/project/crate/.tooloop/commands".to_owned(),
                format!("work/project/crate/{}", compat::COMMANDS),
                "work/project/.tooloop/commands".to_owned(),
                format!("work/project/{}", compat::COMMANDS),
                ".config/tooloop/commands (user)".to_owned(),
                format!("{} (user)", compat::COMMANDS),
            ]
        );
        assert_eq!(places.skills.len(), 9);
        assert_eq!(
            places.skills.last(),
            Some(&Place::of_user(home.join(compat::SKILLS)))
        );
        // Outside of a repository nothing above is looked into, and a home folder is the user's.
        let places = Places::of(&home, &variables);
        assert_eq!(places.skills.len(), 4);
        assert_eq!(
            places.skills[0],
            Place::of_project(home.join(".tooloop/skills"), &home)
        );
    }
}
