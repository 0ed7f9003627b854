echo $(( {{ .n | type "number" | required "a number" }} * 2 )) $(( {{ .m | squote }} ))
