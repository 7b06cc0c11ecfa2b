//! A value that is used but never shown.

use std::fmt;

/// A token. `Debug` and `Display` print six stars, whatever its length; [`Secret::expose`] is the only way to the text,
/// so that a search for it finds every use.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// What is printed instead of a secret.
pub(crate) const STARS: &str = "******";

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself: for headers and key derivation, never for logs.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}
