//! Dropping privileges once everything that needs them is open (`chroot`, `group`, `user`).

use std::io;

use fulmar_haproxy::Global;
use fulmar_sys as sys;

use crate::error::Error;

/// Changes the root, the groups and the user, in this order, as set in `global`.
///
/// # Errors
/// [`Error::Privileges`]: usually because the process is not privileged.
pub fn drop_privileges(global: &Global) -> Result<(), Error> {
    let failed = |what| move |error: io::Error| Error::Privileges { what, error };
    if let Some(root) = &global.chroot {
        let changed = std::os::unix::fs::chroot(root).and_then(|()| std::env::set_current_dir("/"));
        changed.map_err(failed("change the root directory ('chroot')"))?;
    }
    if let Some(group) = global.gid {
        // Drops the supplementary groups of the parent process too. Without privileges this fails,
        // and there is nothing to drop.
        match sys::set_groups(&[]) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                return Err(failed("drop supplementary groups ('group')")(error));
            }
            Ok(()) | Err(_) => {}
        }
        sys::set_group(group).map_err(failed("set gid ('group')"))?;
    }
    if let Some(user) = global.uid {
        sys::set_user(user).map_err(failed("set uid ('user')"))?;
    }
    Ok(())
}
