//! Where a frontend leads: `use_backend` and `default_backend`.

use fulmar_haproxy::model::BackendTarget;
use fulmar_haproxy::rules::EvalContext;
use fulmar_haproxy::{BackendId, FrontendConfig, Mode};

use crate::live::Live;

impl Live {
    /// The backend that deals with a session or a request of this frontend.
    ///
    /// `spoken`: what is spoken with its clients. The first rule that holds decides. A name that is
    /// made of what a client says may be that of no backend, or of one that speaks otherwise than
    /// the frontend does: the engines of the two modes have nothing in common, so that this is no
    /// name either. Then it is the default one's turn (HAProxy's manual, `use_backend`).
    pub(crate) fn lead(
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
        let speaks_so = |id: &BackendId| self.backends[id.0].config.mode == spoken;
        let usual = frontend.default_backend.filter(speaks_so);
        chosen.filter(speaks_so).or(usual)
    }
}
