//! Tsung's vocabulary: elements and attributes that are understood, a table.

use crate::Problem;
use crate::import::xml::Element;

const VOCABULARY: &str = include_str!("../tsung.txt");

/// Refuses what the rows of this name in the vocabulary do not have.
pub(super) fn check(element: &Element, name: &str) -> Result<(), Problem> {
    for row in VOCABULARY.lines() {
        match row.split(" | ").collect::<Vec<_>>()[..] {
            [of, attributes, elements] if of == name => {
                element.only_attributes(attributes)?;
                element.only_elements(elements)?;
            }
            [rule, why] => {
                if let ["!", of, attribute, only] = rule.split(' ').collect::<Vec<_>>()[..]
                    && of == name
                    && element
                        .attribute(attribute)
                        .is_some_and(|value| value != only)
                {
                    return Err(element.problem(why));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
