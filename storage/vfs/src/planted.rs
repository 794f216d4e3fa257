//! A bug on purpose (`hedgerow-planted` says how and why), where no file system in memory can show
//! it: `plants` in the testkit selects it, and cuts of a real one must find it.

hedgerow_planted::bugs! {
    /// A sync of a file of the operating system does nothing.
    SyncOfFilesLeftOut,
}
