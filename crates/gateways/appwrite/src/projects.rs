//! The projects that are served: those of the configuration, and with `*` any other, by numbers
//! that sessions can keep.
//!
//! Rule for "full": of the projects that only `*` allows, so many different ones have connections
//! on a shard at a time; clients of a further one are refused.

use std::cell::RefCell;
use std::collections::HashMap;

use throng_appwrite::Platforms;

/// The id that stands for any.
const ANY: &str = "*";
/// The number of no project.
pub(crate) const NONE: u16 = u16::MAX;

/// A project whose clients may connect.
#[derive(Clone, Debug)]
pub struct AppwriteProject {
    /// Its id; `*` stands for all that are not named.
    pub id: Box<str>,
    pub platforms: Platforms,
}

/// Projects of the configuration, and others while they have connections.
#[derive(Clone)]
pub(crate) struct Projects {
    named: Vec<AppwriteProject>,
    others: RefCell<Others>,
}

#[derive(Clone, Default)]
struct Others {
    /// Bound: as for `ids`.
    numbers: HashMap<Box<str>, u16>,
    /// Ids and how many sessions remember each; nothing in a free place. Bound: 65,535.
    ids: Vec<Option<(Box<str>, u32)>>,
    /// Bound: as for `ids`.
    free: Vec<u16>,
}

impl Projects {
    pub(crate) fn new(named: Vec<AppwriteProject>) -> Self {
        Self {
            named,
            others: RefCell::default(),
        }
    }

    pub(crate) fn platforms(&self, id: &str) -> Option<&Platforms> {
        let find = |id: &str| self.named.iter().find(|project| &*project.id == id);
        let found = find(id).filter(|_| id != ANY).or_else(|| find(ANY));
        found.map(|project| &project.platforms)
    }

    /// Lets a session remember a project by a number, which it gives back in the end. `None` if
    /// the project is not served, or too many are remembered.
    pub(crate) fn take(&self, id: &str) -> Option<u16> {
        self.platforms(id)?;
        let named = self.named.iter().position(|project| &*project.id == id);
        if let Some(named) = named.filter(|_| id != ANY) {
            return u16::try_from(named).ok();
        }
        let mut others = self.others.borrow_mut();
        if let Some(&number) = others.numbers.get(id) {
            if let Some((_, sessions)) = self.place(number, &mut others) {
                *sessions += 1;
            }
            return Some(number);
        }
        let entry = Some((id.into(), 1));
        let number = match others.free.pop() {
            Some(number) => {
                let at = usize::from(number).checked_sub(self.named.len())?;
                *others.ids.get_mut(at)? = entry;
                number
            }
            None => {
                let number = u16::try_from(self.named.len() + others.ids.len()).ok();
                let number = number.filter(|&number| number != NONE)?;
                others.ids.push(entry);
                number
            }
        };
        others.numbers.insert(id.into(), number);
        Some(number)
    }

    pub(crate) fn give(&self, number: u16) {
        let mut others = self.others.borrow_mut();
        let Some((id, sessions)) = self.place(number, &mut others) else {
            return;
        };
        *sessions -= 1;
        if *sessions > 0 {
            return;
        }
        let id = std::mem::take(id);
        others.numbers.remove(&id);
        others.free.push(number);
        let at = usize::from(number) - self.named.len();
        others.ids[at] = None;
        if others.numbers.is_empty() {
            *others = Others::default();
        }
    }

    pub(crate) fn id(&self, number: u16) -> Box<str> {
        if let Some(named) = self.named.get(usize::from(number)) {
            return named.id.clone();
        }
        let mut others = self.others.borrow_mut();
        let place = self.place(number, &mut others);
        place.map_or_else(Box::default, |(id, _)| id.clone())
    }

    fn place<'o>(&self, number: u16, others: &'o mut Others) -> Option<&'o mut (Box<str>, u32)> {
        let at = usize::from(number).checked_sub(self.named.len())?;
        others.ids.get_mut(at)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn projects(ids: &[&str]) -> Projects {
        let project = |id: &&str| AppwriteProject {
            id: (*id).into(),
            platforms: Platforms::new(&[*id]),
        };
        Projects::new(ids.iter().map(project).collect())
    }

    #[test]
    fn others_are_remembered_while_somebody_is_there() {
        let projects = projects(&["a", "*"]);
        assert_eq!(projects.take("a"), Some(0));
        let x = projects.take("x").unwrap();
        assert_eq!((projects.take("x"), &*projects.id(x)), (Some(x), "x"));
        let y = projects.take("y").unwrap();
        let star = projects.take("*").unwrap();
        assert_eq!((&*projects.id(y), &*projects.id(star)), ("y", "*"));
        projects.give(x);
        assert_eq!(&*projects.id(x), "x");
        projects.give(x);
        projects.give(x);
        assert_eq!((&*projects.id(x), projects.take("z")), ("", Some(x)));
        for number in [x, y, star, 0, NONE] {
            projects.give(number);
        }
        assert_eq!(projects.others.borrow().ids.len(), 0);
        let star = Platforms::new(&["*"]);
        assert_eq!(projects.platforms("x"), Some(&star));
        assert_eq!(projects.platforms("a"), Some(&Platforms::new(&["a"])));
    }

    #[test]
    fn without_a_star_there_are_no_others() {
        let projects = projects(&["a"]);
        assert!(projects.take("x").is_none() && projects.platforms("*").is_none());
    }

    #[test]
    fn others_are_bounded() {
        let projects = projects(&["*"]);
        let taken = (0..70_000).filter(|n: &u32| projects.take(&n.to_string()).is_some());
        assert_eq!(taken.count(), usize::from(NONE) - 1);
    }
}
