//! `CURLOPT_SHARE`: the share of an easy handle.

use std::sync::Arc;

use crate::border::CBorder;
use crate::handles::Easy;
use crate::share::Share;
use crate::share_kind::SharedKind;

impl Easy {
    /// Uses another share, or none (CURLOPT_SHARE(3)).
    pub fn set_share(&self, share: Option<Arc<Share>>, border: &dyn CBorder) {
        self.leave_share(border);
        let Some(share) = share else { return };
        self.with_state(|state| state.share = Some(Arc::clone(&share)));
        share.lock(SharedKind::Share, self.handle, border);
        share.join();
        share.unlock(SharedKind::Share, self.handle, border);
    }

    /// Ends the use of the share.
    pub(crate) fn leave_share(&self, border: &dyn CBorder) {
        let Some(share) = self.with_state(|state| state.share.take()) else { return };
        share.lock(SharedKind::Share, self.handle, border);
        share.leave();
        share.unlock(SharedKind::Share, self.handle, border);
    }
}
