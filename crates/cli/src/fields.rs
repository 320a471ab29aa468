//! Header fields on the command line.

/// `Name: value`.
pub(crate) fn parse(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected `Name: value`")?;
    Ok((name.to_owned(), value.trim().to_owned()))
}
