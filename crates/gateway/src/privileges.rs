//! Giving privileges up, once everything that needs them is open (`chroot`, `group`, `user`).

use std::io;

use fulmar_haproxy::Global;
use fulmar_sys as sys;

use crate::error::Error;

/// Changes the root, the groups and the user as `global` says, in this order; nothing, if it says
/// nothing.
///
/// # Errors
/// [`Error::Privileges`]: mostly, since this process has none to give up.
pub fn drop_privileges(global: &Global) -> Result<(), Error> {
    let failed = |what| move |error: io::Error| Error::Privileges { what, error };
    if let Some(root) = &global.chroot {
        let changed = std::os::unix::fs::chroot(root).and_then(|()| std::env::set_current_dir("/"));
        changed.map_err(failed("change the root ('chroot')"))?;
    }
    if let Some(group) = global.gid {
        // Those of whoever started us go too; without privileges there is nothing to be dropped.
        match sys::set_groups(&[]) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                return Err(failed("give groups up ('group')")(error));
            }
            Ok(()) | Err(_) => {}
        }
        sys::set_group(group).map_err(failed("change the group ('group')"))?;
    }
    if let Some(user) = global.uid {
        sys::set_user(user).map_err(failed("change the user ('user')"))?;
    }
    Ok(())
}
