//! The memory of strings and lists that the application gets: that of `curl_global_init_mem`, or
//! of the C library.
//!
//! The application frees it, by `curl_free` and similar functions or by its own one. All other
//! memory, that of handles too, is from the allocator of Rust.

use std::ffi::c_void;
use std::sync::{PoisonError, RwLock};

use fulmar_curl::{close_key_log, open_key_log};

/// `curl_malloc_callback`.
pub type MallocFunction = unsafe extern "C" fn(usize) -> *mut c_void;
/// `curl_free_callback`.
pub type FreeFunction = unsafe extern "C" fn(*mut c_void);

/// Functions that belong together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryFunctions {
    pub(crate) malloc: MallocFunction,
    pub(crate) free: FreeFunction,
}

impl MemoryFunctions {
    /// Those of the C library.
    pub(crate) const STANDARD: Self = Self { malloc: libc::malloc, free: libc::free };
}

/// What `curl_global_init` counts, and the functions that the first call has set.
#[derive(Debug)]
struct GlobalState {
    initialized: u32,
    functions: MemoryFunctions,
}

static STATE: RwLock<GlobalState> =
    RwLock::new(GlobalState { initialized: 0, functions: MemoryFunctions::STANDARD });

/// Counts an initialization. The first one sets the functions, and opens the key log.
pub(crate) fn initialize(functions: MemoryFunctions) {
    let mut state = STATE.write().unwrap_or_else(PoisonError::into_inner);
    if state.initialized == 0 {
        state.functions = functions;
        open_key_log();
    }
    state.initialized = state.initialized.saturating_add(1);
}

/// Initializes once if the application has not, as `curl_easy_init` does.
pub(crate) fn ensure_initialized() {
    let is_initialized = STATE.read().unwrap_or_else(PoisonError::into_inner).initialized > 0;
    if !is_initialized {
        initialize(MemoryFunctions::STANDARD);
    }
}

/// Takes an initialization back; the last one closes the key log. The functions stay until the next
/// first one: the application may free what it has afterwards.
pub(crate) fn deinitialize() {
    let mut state = STATE.write().unwrap_or_else(PoisonError::into_inner);
    state.initialized = state.initialized.saturating_sub(1);
    if state.initialized == 0 {
        close_key_log();
    }
}

/// Memory for the application; `NULL` if there is none.
pub(crate) fn allocate(len: usize) -> *mut c_void {
    let malloc = functions().malloc;
    // SAFETY: malloc has no conditions.
    unsafe { malloc(len) }
}

/// Frees memory of the application.
///
/// # Safety
/// It is `NULL`, from [`allocate`], or from the application's own function.
pub(crate) unsafe fn free(memory: *mut c_void) {
    let free = functions().free;
    if !memory.is_null() {
        // SAFETY: by the contract it is from the function that belongs to this one.
        unsafe { free(memory) };
    }
}

/// Whether there is memory for a copy of so many bytes. Without it Rust ends the process, so that a
/// length that is out of range is refused before.
pub(crate) fn can_copy(len: usize) -> bool {
    len < COPIES_UNCHECKED || Vec::<u8>::new().try_reserve_exact(len).is_ok()
}

/// The longest slice in Rust. No object in memory is longer, whatever length an application passes.
pub(crate) const SLICE_MAX: usize = isize::MAX.cast_unsigned();

/// Copies of fewer bytes are made without a check.
const COPIES_UNCHECKED: usize = 1 << 20;

/// The functions to be used. They run without the lock: they may use the library.
fn functions() -> MemoryFunctions {
    STATE.read().unwrap_or_else(PoisonError::into_inner).functions
}
