//! `CURLOPT_SHARE`: the share of an easy handle.

use std::sync::Arc;

use crate::border::CBorder;
use crate::cache_store::HstsSource;
use crate::cookie_store::CookieSource;
use crate::handles::Easy;
use crate::share::DataShare;
use crate::share_kind::SharedKind;

impl Easy {
    /// Uses another share, or none (CURLOPT_SHARE(3)).
    pub fn set_share(&self, share: Option<Arc<DataShare>>, border: &dyn CBorder) {
        self.leave_share(border);
        let Some(share) = share else { return };
        self.with_state(|state| state.share = Some(Arc::clone(&share)));
        share.lock(SharedKind::Share, self.handle, border);
        share.join();
        if share.has(SharedKind::Cookie) {
            self.with_state(|state| state.cookies.source = CookieSource::Shared);
        }
        if share.has(SharedKind::Hsts) {
            self.with_state(|state| state.hsts.source = HstsSource::Shared);
        }
        share.unlock(SharedKind::Share, self.handle, border);
    }

    /// Ends the use of the share.
    pub(crate) fn leave_share(&self, border: &dyn CBorder) {
        let Some(share) = self.with_state(|state| state.share.take()) else { return };
        share.lock(SharedKind::Share, self.handle, border);
        self.with_state(|state| {
            if matches!(state.cookies.source, CookieSource::Shared) {
                state.cookies.source = CookieSource::Off;
            }
            if matches!(state.hsts.source, HstsSource::Shared) {
                state.hsts.source = HstsSource::Off;
            }
        });
        share.leave();
        share.unlock(SharedKind::Share, self.handle, border);
    }

    /// Calls the lock function of the share, if it shares this.
    pub(crate) fn lock(&self, kind: SharedKind, border: &dyn CBorder) {
        let share = self.with_state(|state| state.share.clone());
        if let Some(share) = share {
            share.lock(kind, self.handle, border);
        }
    }

    /// Calls the unlock function of the share, if it shares this.
    pub(crate) fn unlock(&self, kind: SharedKind, border: &dyn CBorder) {
        let share = self.with_state(|state| state.share.clone());
        if let Some(share) = share {
            share.unlock(kind, self.handle, border);
        }
    }
}
