//! The list of skills that stands in the system prompt, within a number of bytes.

use super::Skill;

/// What the model is told of the skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// The text: the same for the same skills.
    pub text: String,
    /// How many skills it does not name.
    pub left_out: usize,
    /// Whether descriptions are cut.
    pub shortened: bool,
}

const HEAD: &str = "# Skills\nWhen a task fits one of these, call the tool `skill` with its name first, and \
                    do as it says.\n";

/// The words under a list that is not whole. The number is written with as many places each time.
fn foot(left_out: usize) -> String {
    match left_out {
        0 => String::new(),
        1 => "(1 more skill is not listed.)\n".to_owned(),
        more => format!("({more} more skills are not listed.)\n"),
    }
}

/// `skills` come with the most important first.
pub(super) fn catalogue(skills: Vec<&Skill>, bytes: usize) -> Option<Catalogue> {
    if skills.is_empty() {
        return None;
    }
    let room = bytes.saturating_sub(HEAD.len());
    let fits = |skills: &[&Skill], most: usize, room: usize| {
        let lines = skills.iter().map(|skill| line(skill, most).len());
        lines.sum::<usize>() <= room
    };
    let longest = skills.iter().map(|skill| skill.description.len()).max();
    let longest = longest.unwrap_or_default();
    // The largest bound on all descriptions alike with which the list fits.
    let (mut low, mut high) = (0, longest);
    let mut named = skills.len();
    if fits(&skills, 0, room) {
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(&skills, middle, room) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
    } else {
        // Not even the names: those of the weakest places are left out.
        while named > 1 {
            named -= 1;
            let room = room.saturating_sub(foot(skills.len() - named).len());
            if fits(skills.get(..named).unwrap_or_default(), 0, room) {
                break;
            }
        }
    }
    let mut listed: Vec<&Skill> = skills.iter().take(named).copied().collect();
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    let mut text = HEAD.to_owned();
    for skill in listed {
        text.push_str(&line(skill, low));
    }
    let left_out = skills.len() - named;
    text.push_str(&foot(left_out));
    text.truncate(text.trim_end().len());
    Some(Catalogue {
        text,
        left_out,
        shortened: low < longest,
    })
}

/// A line of the list, the description in at most `most` bytes.
fn line(skill: &Skill, most: usize) -> String {
    let (name, description) = (&skill.name, &skill.description);
    if description.len() <= most {
        return format!("- {name}: {description}\n");
    }
    let mut end = most.saturating_sub('…'.len_utf8());
    while !description.is_char_boundary(end) {
        end -= 1;
    }
    // Whole words.
    let beginning = description.get(..end).unwrap_or_default();
    match beginning.rsplit_once(' ') {
        None => format!("- {name}\n"),
        Some((beginning, _)) => format!("- {name}: {beginning}…\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::SkillSet;
    use crate::places::Place;

    fn set(skills: &[(&str, &str)]) -> (tempfile::TempDir, SkillSet) {
        let folder = tempfile::tempdir().unwrap();
        for (name, description) in skills {
            let skill = folder.path().join(name);
            std::fs::create_dir(&skill).unwrap();
            let text = format!("---\ndescription: {description}\n---\n");
            std::fs::write(skill.join("SKILL.md"), text).unwrap();
        }
        let set = SkillSet::discover(&[Place::of_user(folder.path())]);
        assert_eq!(set.warnings(), [""; 0]);
        (folder, set)
    }

    #[test]
    fn what_fits_is_whole() {
        let (_folder, skills) = set(&[("b", "second"), ("a", "first")]);
        let catalogue = skills.catalogue(1_000).unwrap();
        assert!(
            catalogue
                .text
                .ends_with("it says.\n- a: first\n- b: second")
        );
        assert_eq!((catalogue.left_out, catalogue.shortened), (0, false));
        assert_eq!(set(&[]).1.catalogue(1_000), None);
    }

    #[test]
    fn long_descriptions_give_way_before_names_do() {
        let long = "word ".repeat(200);
        let (_folder, skills) = set(&[("a", "short one"), ("b", &long), ("c", &long)]);
        for bytes in [180, 200, 300, 600, 1_500] {
            let catalogue = skills.catalogue(bytes).unwrap();
            let text = &catalogue.text;
            assert!(text.len() <= bytes, "{bytes}: {}", text.len());
            assert_eq!(
                (catalogue.left_out, catalogue.shortened),
                (0, true),
                "{text}"
            );
            if bytes >= 300 {
                assert!(
                    text.contains("- a: short one\n- b: word") && text.ends_with("word…"),
                    "{text}"
                );
                assert!(text.len() + 20 > bytes, "{bytes}: {}", text.len());
            }
        }
    }

    #[test]
    fn names_that_are_left_out_are_counted() {
        let names: Vec<String> = (0..50).map(|n| format!("skill-number-{n:02}")).collect();
        let skills: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), "é is more than one byte"))
            .collect();
        let (_folder, skills) = set(&skills);
        let catalogue = skills.catalogue(400).unwrap();
        assert!(catalogue.text.len() <= 400, "{}", catalogue.text);
        let listed = catalogue.text.matches("- skill-number-").count();
        assert_eq!(listed + catalogue.left_out, 50);
        assert!(listed > 5, "{}", catalogue.text);
        let foot = format!("({} more skills are not listed.)", catalogue.left_out);
        assert!(catalogue.text.ends_with(&foot), "{}", catalogue.text);
        // There is always room for one.
        let catalogue = skills.catalogue(0).unwrap();
        assert_eq!(catalogue.left_out, 49);
        for bytes in 0..3_000 {
            skills.catalogue(bytes).unwrap();
        }
    }
}
