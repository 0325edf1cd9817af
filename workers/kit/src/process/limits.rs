//! The limits that the kernel can set for a process, by name.

use rustix::process::Resource;

/// A bound that the kernel sets a process, as in `setrlimit(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Limit {
    /// `as`: its address space, in bytes.
    AddressSpace,
    /// `core`: a core dump, in bytes.
    Core,
    /// `cpu`: time on a processor, in seconds.
    Cpu,
    /// `data`: its data segment, in bytes.
    Data,
    /// `fsize`: a file that it writes, in bytes.
    FileSize,
    /// `memlock`: memory that it locks, in bytes.
    LockedMemory,
    /// `msgqueue`: message queues of its user, in bytes.
    MessageQueue,
    /// `nice`: 20 less the lowest nice value that it may take.
    Nice,
    /// `nofile`: open files.
    OpenFiles,
    /// `nproc`: processes and threads of its user.
    Processes,
    /// `rtprio`: the highest real-time priority that it may take.
    RealTimePriority,
    /// `rttime`: time on a processor in a real-time class without a wait, in microseconds.
    RealTime,
    /// `sigpending`: signals that wait for processes of its user.
    PendingSignals,
    /// `stack`: its stack, in bytes.
    Stack,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 14] = [
        Self::AddressSpace,
        Self::Core,
        Self::Cpu,
        Self::Data,
        Self::FileSize,
        Self::LockedMemory,
        Self::MessageQueue,
        Self::Nice,
        Self::OpenFiles,
        Self::Processes,
        Self::RealTimePriority,
        Self::RealTime,
        Self::PendingSignals,
        Self::Stack,
    ];

    /// Returns the limit's name, as in `limits.conf` and `prlimit`.
    pub const fn name(self) -> &'static str {
        self.known().0
    }

    /// Returns the limit of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }

    pub(super) const fn resource(self) -> Resource {
        self.known().1
    }

    const fn known(self) -> (&'static str, Resource) {
        match self {
            Self::AddressSpace => ("as", Resource::As),
            Self::Core => ("core", Resource::Core),
            Self::Cpu => ("cpu", Resource::Cpu),
            Self::Data => ("data", Resource::Data),
            Self::FileSize => ("fsize", Resource::Fsize),
            Self::LockedMemory => ("memlock", Resource::Memlock),
            Self::MessageQueue => ("msgqueue", Resource::Msgqueue),
            Self::Nice => ("nice", Resource::Nice),
            Self::OpenFiles => ("nofile", Resource::Nofile),
            Self::Processes => ("nproc", Resource::Nproc),
            Self::RealTimePriority => ("rtprio", Resource::Rtprio),
            Self::RealTime => ("rttime", Resource::Rttime),
            Self::PendingSignals => ("sigpending", Resource::Sigpending),
            Self::Stack => ("stack", Resource::Stack),
        }
    }
}
