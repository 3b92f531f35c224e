//! Which system calls a command has: filters of seccomp.

use std::collections::BTreeMap;
use std::ffi::c_long;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::task::Network;

/// Calls that are refused whatever their arguments: those that reach into other processes or into
/// the kernel, that change the system, or that go round the rules on files and sockets.
const REFUSED: [c_long; 51] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_lookup_dcookie,
];

/// Calls for memory, counters and queues that all programs of a user share, if no namespace keeps a
/// command's own apart.
const SHARED: [c_long; 17] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
];

/// Those of one kind of machine.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: [c_long; 3] = [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: [c_long; 0] = [];

/// Flags that make a new namespace.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Of `unshare` alone: a number that `clone` takes for a signal.
const NEW_TIME: i32 = 0x80;

/// Typing into a terminal for others.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541c];

/// The type of a socket without its flags.
const TYPE: u64 = 0xf;

/// An older kind of raw socket.
const OLD_PACKET: i32 = 10;

/// Connects while it sends, past the rules on connecting.
const FAST_OPEN: u64 = 0x2000_0000;

/// A filter cannot be made or set.
pub(super) type Error = seccompiler::Error;

/// Sets the filters on this process, for good.
pub(super) fn apply(network: &Network, has_namespaces: bool) -> Result<(), Error> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    // What is answered with "no such call" makes libraries take the older one, whose arguments a
    // filter can see.
    apply_filter(&unknown_calls())?;
    apply_filter(&program(refused(has_namespaces)?, libc::EPERM, machine)?)?;
    apply_filter(&program(
        sockets(network, has_namespaces)?,
        libc::EACCES,
        machine,
    )?)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses what a rule meets. A process of another kind of machine is killed.
fn program(rules: Rules, error: i32, machine: TargetArch) -> Result<BpfProgram, Error> {
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(error.unsigned_abs()),
        machine,
    )?;
    Ok(BpfProgram::try_from(filter)?)
}

fn refused(has_namespaces: bool) -> Result<Rules, Error> {
    let shared: &[c_long] = if has_namespaces { &[] } else { &SHARED };
    let mut rules: Rules = REFUSED
        .iter()
        .chain(&REFUSED_HERE)
        .chain(shared)
        .map(|call| (*call, Vec::new()))
        .collect();
    let mut namespaces = Vec::new();
    for flag in NAMESPACES {
        namespaces.push(rule(&[bits(0, flag)])?);
    }
    rules.insert(libc::SYS_clone, namespaces.clone());
    namespaces.push(rule(&[bits(0, NEW_TIME)])?);
    rules.insert(libc::SYS_unshare, namespaces);
    let mut input = Vec::new();
    for request in TERMINAL_INPUT {
        input.push(rule(&[(1, SeccompCmpOp::Eq, request)])?);
    }
    rules.insert(libc::SYS_ioctl, input);
    Ok(rules)
}

fn sockets(network: &Network, has_namespaces: bool) -> Result<Rules, Error> {
    let family = |family: i32| (0, SeccompCmpOp::Eq, u64::from(family.unsigned_abs()));
    let no_family = |family: i32| (0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()));
    let kind = |kind: i32| {
        let kind = u64::from(kind.unsigned_abs());
        (1, SeccompCmpOp::MaskedEq(TYPE), kind)
    };
    let mut makes = vec![
        // Those that are known, and no others.
        rule(&[
            no_family(libc::AF_UNIX),
            no_family(libc::AF_INET),
            no_family(libc::AF_INET6),
            no_family(libc::AF_NETLINK),
        ])?,
        // To ask which addresses this machine has; nothing else of the kernel.
        rule(&[family(libc::AF_NETLINK), (2, SeccompCmpOp::Ne, 0)])?,
    ];
    // Each message of such a socket can go to another address, and no filter sees which. The kernel
    // takes the raw kind for the same.
    let mut messages = Vec::new();
    for datagram in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        messages.push(rule(&[family(libc::AF_UNIX), kind(datagram)])?);
    }
    if has_namespaces {
        makes.extend(messages.iter().cloned());
    } else {
        makes.push(rule(&[family(libc::AF_UNIX)])?);
    }
    let mut sends = Vec::new();
    for internet in [libc::AF_INET, libc::AF_INET6] {
        makes.push(rule(&[family(internet), kind(libc::SOCK_RAW)])?);
        makes.push(rule(&[family(internet), kind(OLD_PACKET)])?);
        match network {
            Network::Open | Network::Forward(_) => {}
            Network::Closed => makes.push(rule(&[family(internet)])?),
            Network::Port(_) => {
                makes.push(rule(&[family(internet), kind(libc::SOCK_DGRAM)])?);
                makes.push(rule(&[family(internet), kind(libc::SOCK_SEQPACKET)])?);
                makes.push(rule(&[family(internet), kind(libc::SOCK_DCCP)])?);
                // Only TCP is under the rules.
                let tcp = u64::from(libc::IPPROTO_TCP.unsigned_abs());
                makes.push(rule(&[
                    family(internet),
                    (2, SeccompCmpOp::Ne, 0),
                    (2, SeccompCmpOp::Ne, tcp),
                ])?);
            }
        }
    }
    let mut rules = Rules::from([(libc::SYS_socket, makes), (libc::SYS_socketpair, messages)]);
    if matches!(network, Network::Port(_)) {
        sends.push(rule(&[(3, SeccompCmpOp::MaskedEq(FAST_OPEN), FAST_OPEN)])?);
        rules.insert(libc::SYS_sendto, sends.clone());
        rules.insert(libc::SYS_sendmmsg, sends);
        let flags = rule(&[(2, SeccompCmpOp::MaskedEq(FAST_OPEN), FAST_OPEN)])?;
        rules.insert(libc::SYS_sendmsg, vec![flags]);
    }
    Ok(rules)
}

/// An argument, how it is compared, and with what.
type Condition = (u8, SeccompCmpOp, u64);

fn bits(argument: u8, bits: i32) -> Condition {
    let bits = u64::from(bits.cast_unsigned());
    (argument, SeccompCmpOp::MaskedEq(bits), bits)
}

/// All conditions must hold. The kernel reads these arguments as 32 bits wide, and so are they
/// compared.
fn rule(conditions: &[Condition]) -> Result<SeccompRule, Error> {
    let mut list = Vec::with_capacity(conditions.len());
    for (argument, comparison, value) in conditions {
        list.push(SeccompCondition::new(
            *argument,
            SeccompCmpArgLen::Dword,
            comparison.clone(),
            *value,
        )?);
    }
    Ok(SeccompRule::new(list)?)
}

/// Answers calls that are to be taken for unknown: `clone3`, whose flags no filter sees, and on
/// x86-64 those of the other set of numbers, which would meet none of the rules.
fn unknown_calls() -> Vec<sock_filter> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const ERROR: u32 = 0x0005_0000;
    const OTHER_NUMBERS: u32 = 0x4000_0000;
    let clone3 = u32::try_from(libc::SYS_clone3).unwrap_or(OTHER_NUMBERS);
    let line = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        line(LOAD, 0, 0, 0),
        line(EQUAL, 1, 0, clone3),
        line(AT_LEAST, 0, 1, OTHER_NUMBERS),
        line(RETURN, 0, 0, ERROR | libc::ENOSYS.unsigned_abs()),
        line(RETURN, 0, 0, ALLOW),
    ]
}
