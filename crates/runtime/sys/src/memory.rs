//! Memory: the allocator's manners, and what a process and the kernel hold.
//!
//! Owns: glibc's malloc settings, what is given back after the start, readings of `smaps_rollup`,
//! `meminfo` and `sockstat`. Never: allocates for others, or guesses a value that a file does not
//! give.

use std::io;
use std::path::Path;

/// Tells glibc to give memory back; call once, before threads start. A no-op elsewhere.
///
/// glibc by default raises its mmap threshold with every large block freed, after which large
/// buffers of a burst live in the heap and pin it; it also makes up to eight arenas per core,
/// each of which keeps its own slack. Fixed thresholds and few arenas bound both.
pub fn tune_allocator() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in GLIBC_SETTINGS {
        // SAFETY: mallopt takes two integers and locks the allocator's state by itself; it has
        // no memory obligation. A parameter it does not know is ignored with a result of 0.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Parameters of mallopt(3) and their values.
#[cfg(target_env = "gnu")]
const GLIBC_SETTINGS: [(libc::c_int, libc::c_int); 3] = [
    (libc::M_MMAP_THRESHOLD, 128 << 10),
    (libc::M_TRIM_THRESHOLD, 128 << 10),
    (libc::M_ARENA_MAX, 2),
];

/// Returns free heap pages to the kernel, and says whether any went. A no-op elsewhere.
///
/// Walks every arena under its lock: for idle moments, not for the hot path.
pub fn trim() -> bool {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: malloc_trim takes an integer, locks each arena by itself and releases only
        // pages that no live block touches.
        unsafe { libc::malloc_trim(0) == 1 }
    }
    #[cfg(not(target_env = "gnu"))]
    {
        false
    }
}

/// Gives back the program's own pages after the start, whose code does not run again: free heap,
/// and the mapped parts of the program's file. The kernel maps what is used next from its cache.
///
/// Each 64 KiB used again cost a page fault, once: for the moment when everything is ready.
pub fn forget_start() {
    trim();
    // SAFETY: `forget_program` has the signature that is called, and no data.
    unsafe { libc::dl_iterate_phdr(Some(forget_program), std::ptr::null_mut()) };
}

/// Forgets the pages of the first object, which is the program itself, and stops there.
unsafe extern "C" fn forget_program(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the loader gives a valid object, whose headers live as long as it is loaded.
    let (base, headers) = unsafe {
        let headers = std::slice::from_raw_parts((*info).dlpi_phdr, (*info).dlpi_phnum.into());
        ((*info).dlpi_addr as usize, headers)
    };
    let page = page_bytes() as usize;
    for header in headers {
        // What is not writable is as in the file: the loader's own changes are where data is.
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = base + header.p_vaddr as usize;
        let end = (start + header.p_filesz as usize) / page * page;
        let start = start.next_multiple_of(page);
        // SAFETY: the whole pages of a segment that is mapped from the file as long as the program
        // runs, and that nobody writes; without them in memory, the file's content is mapped anew.
        let _ = unsafe {
            rustix::mm::madvise(
                start as *mut _,
                end.saturating_sub(start),
                rustix::mm::Advice::LinuxDontNeed,
            )
        };
    }
    1
}

/// The size of a page in bytes; `tcp_mem` counts in pages.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Memory of one process, in bytes, from `smaps_rollup`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Resident pages, shared ones in full.
    pub rss_bytes: u64,
    /// Resident pages, each shared one divided by its sharers: sums over processes are true.
    pub pss_bytes: u64,
}

/// Memory of a process; `None` is this one. Kernel memory, hence sockets, is not in it. Errors:
/// `NotFound` when no such process exists; `PermissionDenied` when it belongs to somebody else;
/// `InvalidData` when the file lacks a field.
pub fn process(pid: Option<u32>) -> io::Result<ProcessMemory> {
    let path = pid.map_or_else(
        || String::from("/proc/self/smaps_rollup"),
        |pid| format!("/proc/{pid}/smaps_rollup"),
    );
    let text = std::fs::read_to_string(path)?;
    parse_rollup(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Memory and sockets of the whole machine; `None` where the kernel's file is missing or
/// unreadable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemMemory {
    /// All memory of the machine, `MemTotal`.
    pub total_bytes: Option<u64>,
    /// Memory that new work may take without swapping, `MemAvailable`.
    pub available_bytes: Option<u64>,
    /// The kernel's object caches, where sockets live, `Slab`.
    pub slab_bytes: Option<u64>,
    /// TCP sockets in use, of both ends and all processes, this network namespace.
    pub tcp_in_use: Option<u64>,
}

/// Reads the kernel's own books.
pub fn system() -> SystemMemory {
    system_below(Path::new("/"))
}

/// As [`system`], with `/proc` below another root.
pub fn system_below(root: &Path) -> SystemMemory {
    let read = |path| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let (meminfo, sockstat) = (read("proc/meminfo"), read("proc/net/sockstat"));
    SystemMemory {
        total_bytes: kib_field(&meminfo, "MemTotal:"),
        available_bytes: kib_field(&meminfo, "MemAvailable:"),
        slab_bytes: kib_field(&meminfo, "Slab:"),
        tcp_in_use: sockets_in_use(&sockstat),
    }
}

/// A line `Name:   123 kB` in bytes.
fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

fn parse_rollup(text: &str) -> Option<ProcessMemory> {
    Some(ProcessMemory {
        rss_bytes: kib_field(text, "Rss:")?,
        pss_bytes: kib_field(text, "Pss:")?,
    })
}

/// The number in the line `TCP: inuse 5 orphan 0 tw 2 alloc 7 mem 1`.
fn sockets_in_use(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix("TCP: inuse "))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_env = "gnu")]
    fn glibc_accepts_every_setting() {
        for (parameter, value) in GLIBC_SETTINGS {
            // SAFETY: as in `tune_allocator`.
            let accepted = unsafe { libc::mallopt(parameter, value) };
            assert_eq!(accepted, 1, "parameter {parameter}");
        }
    }

    #[test]
    fn blocks_live_through_tuning_and_trimming() {
        tune_allocator();
        let kept: Vec<Vec<u8>> = (0..64_u8).map(|n| vec![n; 4096 * usize::from(n)]).collect();
        drop(vec![1_u8; 16 << 20]);
        trim();
        for (n, block) in kept.iter().enumerate() {
            assert!(block.iter().all(|&byte| usize::from(byte) == n));
        }
    }

    #[test]
    fn the_program_runs_on_after_its_start_is_forgotten() {
        // A table of addresses, which the loader wrote.
        static WORDS: [&str; 3] = ["one", "two", "three"];
        let resident = || {
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let code = smaps.split_once(" r-xp ").unwrap().1;
            kib_field(code, "Rss:").unwrap()
        };
        // Tests beside this one bring pages back meanwhile.
        let shrinks = |_| {
            let before = resident();
            forget_start();
            resident() < before
        };
        assert!((0..100).any(shrinks));
        let words: Vec<_> = WORDS.iter().map(|word| word.to_uppercase()).collect();
        assert_eq!(words, ["ONE", "TWO", "THREE"]);
    }

    #[test]
    fn this_process_has_memory() {
        let memory = process(None).unwrap();
        assert!(0 < memory.pss_bytes && memory.pss_bytes <= memory.rss_bytes);
        assert!(process(Some(std::process::id())).is_ok());
        assert_eq!(
            process(Some(u32::MAX)).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert!(system().available_bytes <= system().total_bytes);
    }

    #[test]
    fn rollup_needs_every_field() {
        let text = "5-7 ---p 0 0:0 0 [rollup]\nRss:  10 kB\nPss:  8 kB\nPss_Dirty: 1 kB\n";
        let expect = ProcessMemory {
            rss_bytes: 10_240,
            pss_bytes: 8_192,
        };
        assert_eq!(parse_rollup(text), Some(expect));
        for missing in ["Rss:", "Pss:"] {
            assert_eq!(
                parse_rollup(&text.replace(missing, "Other:")),
                None,
                "{missing}"
            );
        }
    }

    #[test]
    fn sockets_in_use_are_those_of_tcp() {
        let text =
            "sockets: used 9\nTCP: inuse 5 orphan 1 tw 2 alloc 7 mem 3\nUDP: inuse 4 mem 8\n";
        assert_eq!(sockets_in_use(text), Some(5));
        for bad in ["", "TCP:", "TCP: inuse", "TCP: inuse many"] {
            assert_eq!(sockets_in_use(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_root_without_proc_is_unknown() {
        let nowhere = system_below(Path::new("/nonexistent"));
        assert_eq!(nowhere, SystemMemory::default());
    }
}
