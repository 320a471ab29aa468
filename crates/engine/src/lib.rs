//! Part of fulmar.
