//! A list of numbers whose owners know their places: most hold one, some hold a million.

/// Numbers in no order. Adding and taking away cost the same at any length; whoever is moved by
/// the latter must be told its new place.
#[derive(Debug, Default)]
pub(super) enum Posting {
    #[default]
    Empty,
    One(u32),
    Many(Vec<u32>),
}

impl Posting {
    /// Adds a number and says where it stands.
    pub(super) fn push(&mut self, number: u32) -> u32 {
        match self {
            Self::Empty => {
                *self = Self::One(number);
                0
            }
            Self::One(first) => {
                *self = Self::Many(vec![*first, number]);
                1
            }
            Self::Many(all) => {
                all.push(number);
                (all.len() - 1) as u32
            }
        }
    }

    /// Takes away what stands at `place`. If another number moved there, gives that.
    pub(super) fn swap_remove(&mut self, place: u32) -> Option<u32> {
        let place = place as usize;
        let moved = match self {
            Self::Empty => None,
            Self::One(_) => {
                *self = Self::Empty;
                None
            }
            Self::Many(all) => {
                if place < all.len() {
                    all.swap_remove(place);
                }
                all.get(place).copied()
            }
        };
        self.shrink();
        moved
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        match self {
            Self::Empty => &[],
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(all) => all,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Many(all) => all.capacity() * size_of::<u32>(),
            _ => 0,
        }
    }

    /// Gives memory back after a crowd has left, but not at every step back and forth.
    fn shrink(&mut self) {
        let Self::Many(all) = self else { return };
        match all.as_slice() {
            [] => *self = Self::Empty,
            [one] => *self = Self::One(*one),
            _ if all.len() < all.capacity() / 4 => all.shrink_to(all.len() * 2),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_moves() {
        let mut posting = Posting::default();
        for number in 0..100 {
            assert_eq!(posting.push(number), number);
        }
        assert_eq!(posting.swap_remove(3), Some(99));
        assert_eq!(posting.as_slice()[3], 99);
        assert_eq!(posting.swap_remove(98), None);
        while posting.len() > 1 {
            posting.swap_remove(0);
        }
        assert!(matches!(posting, Posting::One(_)));
        assert_eq!(posting.heap_bytes(), 0);
        posting.swap_remove(0);
        assert!(posting.is_empty());
    }
}
