//! Random replies of a model, as stream events.

use std::collections::VecDeque;

use proptest::prelude::*;
use tooloop_model::{
    BlockStart, ModelErrorKind, RawJson, StopReason, StreamEvent, ToolUseId, Usage, VendorData,
};

use crate::codecs;

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    blocks: Vec<Block>,
    /// All blocks begin before the first ends.
    interleaved: bool,
    usage: Option<u64>,
    end: End,
}

#[derive(Debug, Clone)]
struct Block {
    start: BlockStart,
    delta: String,
    signature: Option<VendorData>,
    /// The block's end never comes.
    left_open: bool,
}

#[derive(Debug, Clone)]
enum End {
    Stop(StopReason),
    Fail(ModelErrorKind),
    /// It hangs.
    Never,
}

/// What comes of a model call, piece by piece.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Event(StreamEvent),
    Fail(ModelErrorKind),
}

impl Reply {
    pub(crate) fn pieces(&self) -> VecDeque<Piece> {
        let mut begin = Vec::new();
        let mut finish = Vec::new();
        let mut events = vec![StreamEvent::MessageStart {
            id: Some("msg".into()),
            model: None,
        }];
        for (index, block) in self.blocks.iter().enumerate() {
            begin.push(StreamEvent::BlockStart {
                index,
                block: block.start.clone(),
            });
            begin.extend(block.delta(index));
            if let Some(data) = block.signature.clone() {
                begin.push(StreamEvent::VendorDelta { index, data });
            }
            if !block.left_open {
                finish.push(StreamEvent::BlockStop { index });
            }
            if !self.interleaved {
                events.append(&mut begin);
                events.append(&mut finish);
            }
        }
        events.append(&mut begin);
        events.extend(finish.into_iter().rev());
        if let Some(tokens) = self.usage {
            events.push(StreamEvent::Usage(Usage {
                input_tokens: tokens,
                output_tokens: 1,
                ..Usage::default()
            }));
        }
        let mut pieces: VecDeque<_> = events.into_iter().map(Piece::Event).collect();
        match &self.end {
            End::Stop(stop_reason) => {
                let stop_reason = stop_reason.clone();
                pieces.push_back(Piece::Event(StreamEvent::MessageStop { stop_reason }));
            }
            End::Fail(kind) => pieces.push_back(Piece::Fail(*kind)),
            End::Never => {}
        }
        pieces
    }
}

impl Block {
    fn delta(&self, index: usize) -> Vec<StreamEvent> {
        // In two pieces, cut in the middle.
        let middle = self.delta.len() / 2;
        let cut = (middle..=self.delta.len())
            .find(|cut| self.delta.is_char_boundary(*cut))
            .unwrap_or_default();
        let (one, two) = self.delta.split_at(cut);
        [one, two]
            .into_iter()
            .filter_map(|piece| {
                let piece = piece.to_owned();
                match &self.start {
                    BlockStart::Text => Some(StreamEvent::TextDelta { index, text: piece }),
                    BlockStart::Thinking => Some(StreamEvent::ThinkingDelta { index, text: piece }),
                    BlockStart::ToolUse { .. } => {
                        Some(StreamEvent::InputDelta { index, json: piece })
                    }
                    BlockStart::RedactedThinking(_) | BlockStart::Vendor(_) => None,
                }
            })
            .collect()
    }
}

/// Data of one of the codecs, well formed, or of nobody.
fn signature() -> impl Strategy<Value = VendorData> {
    let [one, other] = codecs::owners();
    prop_oneof![
        Just((one, "\"c2ln\"")),
        Just((other, "{\"field\":\n\"reasoning_content\"}")),
        Just(("somebody", "[1]")),
    ]
    .prop_map(|(owner, data)| VendorData {
        owner: owner.into(),
        data: RawJson::parse(data).unwrap(),
    })
}

/// A whole block that only one codec understands, or nobody.
fn note() -> impl Strategy<Value = VendorData> {
    let owners = [codecs::owners().as_slice(), &["somebody"]].concat();
    prop::sample::select(owners).prop_map(|owner| VendorData {
        owner: owner.into(),
        data: RawJson::parse("{\"type\":\"note\",\n\"x\":1}").unwrap(),
    })
}

pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    (
        prop::collection::vec(block(), 0..6),
        prop::bool::weighted(0.2),
        prop::option::of(0..100_u64),
        end(),
    )
        .prop_map(|(blocks, interleaved, usage, end)| Reply {
            blocks,
            interleaved,
            usage,
            end,
        })
}

fn block() -> impl Strategy<Value = Block> {
    let tool_use = (id(), name(), input()).prop_map(|(id, name, json)| {
        let name = name.to_owned();
        (BlockStart::ToolUse { id, name }, json)
    });
    let start = prop_oneof![
        2 => text().prop_map(|text| (BlockStart::Text, text)),
        1 => text().prop_map(|text| (BlockStart::Thinking, text)),
        1 => signature().prop_map(|data| (BlockStart::RedactedThinking(data), String::new())),
        1 => note().prop_map(|data| (BlockStart::Vendor(data), String::new())),
        9 => tool_use,
    ];
    let signature = prop::option::weighted(0.3, signature());
    (start, signature, prop::bool::weighted(0.1)).prop_map(
        |((start, delta), signature, left_open)| Block {
            start,
            delta,
            signature,
            left_open,
        },
    )
}

/// Ids that providers give: good, colliding, empty, odd.
pub(crate) fn id() -> impl Strategy<Value = ToolUseId> {
    prop_oneof![
        4 => (0..1000_u32).prop_map(|number| format!("tu_{number}")),
        2 => (0..4_u32).prop_map(|number| format!("call_{number}")),
        2 => Just(String::new()),
        1 => Just("functions.bash:0".into()),
        1 => Just("x".repeat(65)),
    ]
    .prop_map(ToolUseId)
}

/// Names as the gate of these tests tells them apart.
fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        6 => Just("read"),
        4 => Just("bash"),
        1 => Just("write"),
        3 => Just("ask"),
        1 => Just("peek"),
        1 => Just("deny"),
        1 => Just("gone"),
    ]
}

fn input() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..3_u8).prop_map(|number| format!("{{\"n\": {number}}}")),
        1 => Just("{\"text\":\n\"line\\nbreak \u{2028} \\ud83d\\ude00\"}".into()),
        1 => Just(String::new()),
        1 => Just("null".into()),
        1 => Just("{\"command\":\"rm -rf".into()),
        1 => Just("[1]".into()),
    ]
}

pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n\t".into()),
        Just("hello".into()),
        Just("日本 \u{2028} \"quoted\"\r\nand \\ more".into()),
    ]
}

fn end() -> impl Strategy<Value = End> {
    let stop = prop_oneof![
        6 => Just(StopReason::ToolUse),
        4 => Just(StopReason::EndTurn),
        3 => Just(StopReason::MaxTokens),
        1 => Just(StopReason::Refusal),
        1 => Just(StopReason::Pause),
        1 => Just(StopReason::ContextWindow),
        1 => Just(StopReason::Other(String::new())),
    ];
    prop_oneof![
        8 => stop.prop_map(End::Stop),
        2 => failure().prop_map(End::Fail),
        1 => Just(End::Never),
    ]
}

pub(crate) fn failure() -> impl Strategy<Value = ModelErrorKind> {
    prop_oneof![
        4 => Just(ModelErrorKind::CutStream),
        4 => Just(ModelErrorKind::Overloaded),
        1 => Just(ModelErrorKind::RateLimited),
        1 => Just(ModelErrorKind::Auth),
        1 => Just(ModelErrorKind::ContextTooLong),
    ]
}
