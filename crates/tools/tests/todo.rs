//! The plan as a model meets it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared test code may panic"
)]

use std::sync::Arc;

use serde_json::{Value, json};
use tooloop_model::{Content, JsonObject};
use tooloop_policy::{AccessEffect, Mode, Policy};
use tooloop_tool::{Carried, DynTool, Scope, ToolContext, Withheld, tool};
use tooloop_tools::Todo;

fn todo() -> Arc<dyn DynTool> {
    tool(Todo::new()).for_session(&Scope::new()).unwrap()
}

/// What the model is told, and whether it is an error.
async fn call(todo: &Arc<dyn DynTool>, input: Value) -> (String, bool) {
    let input = JsonObject::parse(&input.to_string()).unwrap();
    match todo.run(&input, &ToolContext::new("/")).await {
        Ok(output) => match output.content.as_slice() {
            [Content::Text(text)] => (text.clone(), output.is_error),
            other => panic!("{other:?}"),
        },
        Err(error) => (error.to_string(), true),
    }
}

fn item(content: &str, status: &str) -> Value {
    json!({ "content": content, "status": status })
}

#[tokio::test]
async fn the_whole_list_is_replaced_and_shown() {
    let todo = todo();
    let first = json!({ "items": [
        item("read the parser", "completed"),
        item("  fix\n  the cut ", "in_progress"),
        item("test it", "pending"),
        item("tell the user", "pending"),
    ] });
    let shown = "[x] read the parser\n[>] fix the cut\n[ ] test it\n[ ] tell the user\n\
                 (1 completed, 1 in progress, 2 pending)";
    assert_eq!(call(&todo, first).await, (shown.into(), false));
    let second = json!({ "items": [item("rest", "pending")] });
    let shown = "[ ] rest\n(0 completed, 0 in progress, 1 pending)";
    assert_eq!(call(&todo, second).await, (shown.into(), false));
    let empty = call(&todo, json!({ "items": [] })).await;
    assert_eq!(empty, ("the list is empty".into(), false));
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_words_and_changes_nothing() {
    use tooloop_tool::Tool;
    let many: Vec<_> = (0..21).map(|_| item("a", "pending")).collect();
    let long = "é".repeat(201);
    let table = [
        (
            json!({ "items": many }),
            "there are 21 items, and 20 is the most: join small ones, or leave out what is \
             completed; the list is unchanged",
        ),
        (
            json!({ "items": [item("a", "pending"), item(" \n\t", "pending")] }),
            "item 2 is blank: say what is to be done; the list is unchanged",
        ),
        (
            json!({ "items": [item(&long, "pending")] }),
            "item 1 has 201 characters, and 200 is the most: say it in a few words; the list is \
             unchanged",
        ),
        (
            json!({ "items": [
                item("a", "in_progress"), item("b", "pending"), item("c", "in_progress"),
            ] }),
            "items 1, 3 are all in_progress, and one is the most: mark the others pending or \
             completed; the list is unchanged",
        ),
    ];
    let todo = Todo::new();
    let context = ToolContext::new("/");
    let kept: tooloop_tools::TodoInput =
        serde_json::from_value(json!({ "items": [item("kept", "pending")] })).unwrap();
    todo.run(kept.clone(), &context).await.unwrap();
    for (input, words) in table {
        let input = serde_json::from_value(input).unwrap();
        let error = todo.run(input, &context).await.unwrap_err();
        assert_eq!(error.to_string(), words);
        assert_eq!(todo.items(), kept.items);
    }
}

#[tokio::test]
async fn the_limits_themselves_fit() {
    let todo = todo();
    let content = "é".repeat(200);
    let most: Vec<_> = (0..20).map(|_| item(&content, "completed")).collect();
    let (text, is_error) = call(&todo, json!({ "items": most })).await;
    assert!(!is_error, "{text}");
    assert!(text.ends_with("(20 completed, 0 in progress, 0 pending)"));
}

#[tokio::test]
async fn input_of_another_shape_is_refused_with_words() {
    let todo = todo();
    for (input, words) in [
        (json!({}), "missing field `items`"),
        (json!({ "items": "a" }), "expected a sequence"),
        (
            json!({ "items": [{ "content": "a" }] }),
            "missing field `status`",
        ),
        (
            json!({ "items": [item("a", "done")] }),
            "unknown variant `done`",
        ),
        (json!({ "items": [], "more": 1 }), "unknown field `more`"),
    ] {
        let (text, is_error) = call(&todo, input).await;
        assert!(is_error && text.contains(words), "{text}");
    }
}

#[tokio::test]
async fn a_plan_is_carried_over_while_something_of_it_is_open() {
    let todo = todo();
    let nothing = Withheld::nothing();
    assert_eq!(todo.carried(&nothing).await, []);
    let open = json!({ "items": [item("read", "completed"), item("write", "pending")] });
    let (text, _) = call(&todo, open).await;
    let title = "the plan".into();
    assert_eq!(todo.carried(&nothing).await, [Carried { title, text }]);
    call(&todo, json!({ "items": [item("read", "completed")] })).await;
    assert_eq!(todo.carried(&nothing).await, []);
}

#[tokio::test]
async fn each_session_has_its_own() {
    let recipe = tool(Todo::new());
    let one = recipe.for_session(&Scope::new()).unwrap();
    let input = json!({ "items": [item("a", "pending")] });
    call(&one, input).await;
    let typed = Todo::new();
    assert!(
        tooloop_tool::Tool::for_session(&typed, &Scope::new())
            .unwrap()
            .items()
            .is_empty()
    );
}

#[test]
fn nobody_is_asked_and_nothing_runs_early() {
    let input = JsonObject::parse(r#"{"items":[]}"#).unwrap();
    let access = todo().access(&input).unwrap();
    assert_eq!(access.effect, AccessEffect::Session);
    for mode in Mode::ALL {
        let policy = Policy {
            mode,
            ..Policy::default()
        };
        assert!(policy.decide("todo", &access).is_allow(), "{mode}");
    }
}

#[test]
fn what_the_model_is_told_is_short() {
    let definition = todo().definition();
    let schema = definition.input_schema.get();
    assert!(!schema.contains("$defs"), "{schema}");
    assert!(
        schema.contains(r#""enum":["pending","in_progress","completed"]"#),
        "{schema}"
    );
    assert!(
        definition.description.len() + schema.len() < 800,
        "{schema}"
    );
}
