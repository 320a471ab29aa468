//! The origin of the last request: requests that follow each other mostly go to the same one, and
//! then neither its URL is parsed nor its connection key made again.

use fulmar_client::{BuildError, CompiledOrigin, Options};

use crate::hop_target::HopTarget;

/// The origin of the last request, if there was one.
#[derive(Debug, Default)]
pub(crate) struct KnownOrigin {
    last: Option<(TargetOrigin, CompiledOrigin)>,
}

/// The parts that targets of one origin share.
#[derive(Debug)]
struct TargetOrigin {
    is_secure: bool,
    host: String,
    port: u16,
}

impl KnownOrigin {
    /// The origin of a target with these options.
    ///
    /// # Errors
    /// As [`CompiledOrigin::new`].
    pub(crate) fn find(
        &mut self,
        target: &HopTarget,
        options: Options,
    ) -> Result<CompiledOrigin, BuildError> {
        if let Some((origin, compiled)) = &self.last
            && origin.is_of(target)
            && *compiled.options() == options
        {
            return Ok(compiled.clone());
        }
        let compiled = CompiledOrigin::new(&target.origin(), options)?;
        let HopTarget { is_secure, port, .. } = *target;
        let origin = TargetOrigin { is_secure, host: target.host.clone(), port };
        self.last = Some((origin, compiled.clone()));
        Ok(compiled)
    }
}

impl TargetOrigin {
    fn is_of(&self, target: &HopTarget) -> bool {
        self.is_secure == target.is_secure && self.port == target.port && self.host == target.host
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::EasyOptions;

    /// Every part of an origin and every option selects another connection key.
    #[test]
    fn an_origin_is_used_again_for_equal_targets_and_options() {
        let mut known = KnownOrigin::default();
        let mut find = |url: &str, options: Options| {
            let target = HopTarget::parse(url.as_bytes(), &EasyOptions::default());
            known.find(&target.expect("valid"), options).expect("valid")
        };
        let is_one =
            |a: &CompiledOrigin, b: &CompiledOrigin| std::ptr::eq(a.options(), b.options());
        let plain = find("http://a/1", Options::default());
        assert!(is_one(&plain, &find("http://a:80/2", Options::default())));
        let unix = || Options { unix_socket: Some("/x".into()), ..Options::default() };
        let mut last = plain;
        for (url, options) in [
            ("http://a:81/", Options::default()),
            ("http://b:81/", Options::default()),
            ("http://b:81/", unix()),
            ("https://b:81/", unix()),
        ] {
            let other = find(url, options.clone());
            assert!(!is_one(&last, &other), "{url}");
            assert!(is_one(&other, &find(url, options)), "{url}");
            last = other;
        }
    }
}
