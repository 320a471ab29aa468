//! Hosts: listeners, threads, a good end, and the next process.
