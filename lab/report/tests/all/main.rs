//! Reports as files, as pages in a browser, and of results that nobody would want. One program, so
//! that the crate is linked once.

mod browser;
mod golden;
mod hostile;
mod layouts;
