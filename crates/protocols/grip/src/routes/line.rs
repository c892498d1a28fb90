//! Words of a line: `value,option,option=value` separated by spaces, `"..."` anywhere in a
//! word, `#` begins a comment.

/// Why a line cannot be cut into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// A quote that does not end.
    #[error("a quoted section does not end")]
    OpenQuote,
    /// A backslash in quotes before something else than a backslash or a quote.
    #[error("an escape other than \\\\ and \\\"")]
    BadEscape,
    /// A comma without an option behind it, or an option without a name.
    #[error("an option without a name")]
    EmptyOption,
}

/// One word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// What stands before the first comma; empty if that is an option already.
    pub(super) value: String,
    /// Names and values, in their order; an option without `=` has an empty value.
    pub(super) options: Vec<(String, String)>,
}

/// Cuts a line; an empty line or a comment has no words.
pub(super) fn sections(line: &str) -> Result<Vec<Section>, LineFault> {
    let mut out: Vec<Section> = Vec::new();
    let mut rest = line;
    loop {
        // Pushpin takes spaces alone; a tab or a carriage return inside a word is never meant.
        rest = rest.trim_start_matches([' ', '\t', '\r']);
        if rest.is_empty() || rest.starts_with('#') {
            return Ok(out);
        }
        let mut section = Section::default();
        let mut is_first = true;
        loop {
            let (part, after) = part(rest)?;
            rest = after;
            match part.split_once('=') {
                None if is_first => section.value = part,
                None if part.is_empty() => return Err(LineFault::EmptyOption),
                Some(("", _)) => return Err(LineFault::EmptyOption),
                None => section.options.push((part, String::new())),
                Some((name, value)) => section.options.push((name.to_owned(), value.to_owned())),
            }
            is_first = false;
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None => break,
            }
        }
        out.push(section);
    }
}

/// One part of a word, with quotes undone, and what follows it.
fn part(text: &str) -> Result<(String, &str), LineFault> {
    let mut out = String::new();
    let mut quoted = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' if quoted => match chars.next() {
                Some((_, c @ ('\\' | '"'))) => out.push(c),
                Some(_) => return Err(LineFault::BadEscape),
                None => return Err(LineFault::OpenQuote),
            },
            ' ' | '\t' | '\r' | '#' | ',' if !quoted => return Ok((out, &text[at..])),
            c => out.push(c),
        }
    }
    if quoted {
        return Err(LineFault::OpenQuote);
    }
    Ok((out, ""))
}
