//! The backend of a session or a request: `use_backend` and `default_backend`.

use fulmar_haproxy::model::BackendTarget;
use fulmar_haproxy::rules::EvalContext;
use fulmar_haproxy::{BackendId, FrontendConfig, Mode};

use crate::live::Live;

impl Live {
    /// Selects the backend of a session or a request.
    ///
    /// `spoken`: the mode of the client's connection. The first rule with a true condition decides.
    /// A name made from client data may match no backend, or one of the other mode; then
    /// `default_backend` is used (HAProxy's manual, `use_backend`). A backend of the other mode
    /// never matches, since each mode has its own engine.
    pub(crate) fn select_backend(
        &self,
        frontend: &FrontendConfig,
        spoken: Mode,
        subject: &dyn EvalContext,
    ) -> Option<BackendId> {
        let holds = |condition: &Option<fulmar_haproxy::rules::Condition>| {
            condition.as_ref().is_none_or(|condition| condition.holds(subject))
        };
        let rule = frontend.use_backends.iter().find(|rule| holds(&rule.condition));
        let chosen = rule.and_then(|rule| match &rule.target {
            BackendTarget::Backend(backend) => Some(*backend),
            BackendTarget::Named(format) => {
                let mut name = Vec::new();
                format.render(subject, &mut name);
                self.backend_named(&name)
            }
        });
        let fits = |id: &BackendId| self.backends[id.0].config.mode == spoken;
        let usual = frontend.default_backend.filter(fits);
        chosen.filter(fits).or(usual)
    }
}
